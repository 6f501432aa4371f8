package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"glovebox/system/platform/secret"
	"glovebox/threat-model/evidence"
)

var cheap = Params{Time: 1, MemoryKiB: 64, Threads: 1}

func TestPasswordHashes(t *testing.T) {
	evidence.Proves(t, "AUT-02")
	h := NewHasher(cheap, 2, time.Minute)
	right, wrong := secret.New("correct horse battery"), secret.New("correct horse batterx")
	one, err := h.Hash(t.Context(), right)
	if err != nil {
		t.Fatal(err)
	}
	two, err := h.Hash(t.Context(), right)
	if err != nil {
		t.Fatal(err)
	}
	if one == two || !strings.HasPrefix(one, "$argon2id$v=19$m=64,t=1,p=1$") {
		t.Fatalf("hashes %q and %q", one, two)
	}
	for _, c := range []struct {
		encoded   string
		password  secret.Text
		ok, stale bool
	}{{one, right, true, false}, {two, right, true, false}, {one, wrong, false, false}, {"", right, false, false}} {
		ok, stale, err := h.Verify(t.Context(), c.encoded, c.password)
		if err != nil || ok != c.ok || stale != c.stale {
			t.Errorf("verify: %v %v %v, want %v %v", ok, stale, err, c.ok, c.stale)
		}
	}
	for _, raised := range []Params{{2, 64, 1}, {1, 128, 1}, {1, 64, 2}} {
		ok, stale, err := NewHasher(raised, 1, time.Minute).Verify(t.Context(), one, right)
		if err != nil || !ok || !stale {
			t.Errorf("under %v: %v %v %v", raised, ok, stale, err)
		}
	}
}

// TestStoredHashesOfAnotherFormAreRefused: a row that was tampered with neither
// logs anybody in nor costs gigabytes.
func TestStoredHashesOfAnotherFormAreRefused(t *testing.T) {
	evidence.Proves(t, "AUT-02")
	h := NewHasher(cheap, 1, time.Minute)
	good, err := h.Hash(t.Context(), secret.New("correct horse battery"))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{"argon2id", "argon2i"}, {"v=19", "v=16"}, {"m=64", "m=99999999"}, {"m=64", "m=0"}, {"t=1", "t=1000"}, {"p=1", "p=200"}, {"m=64,t=1", "t=1,m=64"},
		{"m=64", "m=-64"}, {"m=64", "m=64 "}, {"$argon2id", "argon2id"}, {good[len(good)-10:], ""}, {good[len(good)-40:], "AAAA"}, {"$", ""},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if ok, _, err := h.Verify(t.Context(), bad, secret.New("correct horse battery")); err == nil || ok {
			t.Errorf("%q for %q: %v %v", change[1], change[0], ok, err)
		} else if strings.Contains(err.Error(), good[30:]) {
			t.Errorf("the error shows the hash: %v", err)
		}
	}
}

func TestPasswordsAreHashedAFewAtATime(t *testing.T) {
	evidence.Proves(t, "AUT-05")
	h := NewHasher(cheap, 1, 20*time.Millisecond)
	release, err := h.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Verify(t.Context(), "", secret.New("x")); CodeOf(err) != CodeOverloaded {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Hash(ctx, secret.New("x")); !errors.Is(err, context.Canceled) && CodeOf(err) != CodeOverloaded {
		t.Errorf("error is %v", err)
	}
	release()
	if _, _, err := h.Verify(t.Context(), "", secret.New("x")); err != nil {
		t.Error(err)
	}
}

func TestPasswordPolicy(t *testing.T) {
	for password, ok := range map[string]bool{
		"twelve chars": true, "eleven char": false, "": false, "đđđđđđđđđđđđ": true, "đđđđđđ": false,
		strings.Repeat("x", 1024): true, strings.Repeat("x", 1025): false, "with a\x00null byte": false, "not utf-8 \xff\xff\xff": false,
	} {
		if err := CheckPassword(secret.New(password)); (err == nil) != ok {
			t.Errorf("%.20q: %v", password, err)
		}
	}
}

func TestTokens(t *testing.T) {
	evidence.Proves(t, "AUT-03", "AUT-04")
	key := secret.New(strings.Repeat("k", 32))
	m := NewMinter(key)
	seen := map[string]bool{}
	for range 1000 {
		text, hash := m.Mint()
		plain := text.Reveal()
		if seen[plain] || len(plain) != len(TokenPrefix)+43 || fmt.Sprint(text) == plain {
			t.Fatalf("token %q", plain)
		}
		seen[plain] = true
		if again, ok := m.Hash(text); !ok || again != hash {
			t.Fatal("the hash of a token changes")
		}
		if other, ok := NewMinter(secret.New(strings.Repeat("j", 32))).Hash(text); !ok || other == hash {
			t.Fatal("another secret gives the same hash")
		}
	}
	text, _ := m.Mint()
	plain := text.Reveal()
	last := plain[len(plain)-1:]
	// The last character of 43 carries two bits that are not part of the 32 bytes.
	sibling := plain[:len(plain)-1] + map[bool]string{true: "B", false: string(last[0] + 1)}[strings.Contains("AZz9_", last)]
	for _, bad := range []string{"", plain[1:], plain + "A", plain[:len(plain)-1], "GBX_" + plain[4:], plain[4:], plain + "\n", strings.Replace(plain, "gbx_", "gbx-", 1), plain[:20] + "\n" + plain[21:], sibling} {
		if _, ok := m.Hash(secret.New(bad)); ok && bad != plain {
			t.Errorf("%q counts as a token", bad)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a short secret was taken")
		}
	}()
	NewMinter(secret.New(strings.Repeat("k", 31)))
}

func TestLoginForms(t *testing.T) {
	for login, want := range map[string]string{"alice": "alice", "ALICE": "alice", "a.b+c@d-e_f": "a.b+c@d-e_f", "0": "0"} {
		if got, ok := FoldLogin(login); !ok || got != want {
			t.Errorf("%q: %q %v", login, got, ok)
		}
	}
	for _, bad := range []string{"", "-a", ".a", "a b", "a\x00", "é", "a/b", "a'b", strings.Repeat("a", 65), "a\n"} {
		if _, ok := FoldLogin(bad); ok {
			t.Errorf("%q is a login", bad)
		}
	}
}

func TestSubjectsOfAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8:0:0:ffff::2": "2001:db8::/64", "fe80::1%eth0": "fe80::/64",
	} {
		if got := subjectOfAddress(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	if subjectOfAddress(netip.Addr{}) != "unknown" {
		t.Error("no address has no subject")
	}
}

// memory is a store and a counter for one user.
type memory struct {
	user   User
	counts map[Scope]map[string]*Count
	fault  error
	tokens map[Hash]bool
}

func (m *memory) UserByLogin(_ context.Context, login string) (User, bool, error) {
	return m.user, login == m.user.Login, m.fault
}
func (m *memory) Rehash(_ context.Context, _, _, new string) error {
	m.user.PasswordHash = new
	return nil
}
func (m *memory) AddToken(_ context.Context, _ string, h Hash, lifetime time.Duration) (time.Time, error) {
	m.tokens[h] = true
	return time.Now().Add(lifetime), nil
}
func (m *memory) Lookup(_ context.Context, h Hash) (Principal, Hash, bool, error) {
	// A store that finds another row than the one asked for.
	return Principal{UserID: "1"}, Hash{1}, true, nil
}
func (m *memory) Revoke(_ context.Context, h Hash) error { delete(m.tokens, h); return nil }

func (m *memory) Reserve(_ context.Context, scope Scope, subject string, window time.Duration) (Count, error) {
	if m.counts[scope] == nil {
		m.counts[scope] = map[string]*Count{}
	}
	if m.counts[scope][subject] == nil {
		m.counts[scope][subject] = &Count{Remaining: window}
	}
	c := m.counts[scope][subject]
	c.Attempts++
	c.Failures++
	return *c, nil
}

func (m *memory) Absolve(_ context.Context, scope Scope, subject string, _ Count) error {
	m.counts[scope][subject].Failures--
	return nil
}

type alarms int

func (a *alarms) FailedLogins(context.Context, int, time.Duration) { *a++ }

func newMemory(t *testing.T) (*Service, *memory, *alarms) {
	t.Helper()
	h := NewHasher(cheap, 4, time.Minute)
	hash, err := h.Hash(t.Context(), secret.New("correct horse battery"))
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{user: User{ID: "1", Login: "alice", PasswordHash: hash}, counts: map[Scope]map[string]*Count{}, tokens: map[Hash]bool{}}
	raised := new(alarms)
	policy := Policy{TokenLifetime: time.Hour, Window: time.Minute, AttemptsPerAddress: 50, FailuresPerLogin: 3, SpikeThreshold: 4, SpikeWindow: time.Minute}
	return NewService(m, m, h, NewMinter(secret.New(strings.Repeat("k", 32))), policy, raised, slog.New(slog.DiscardHandler)), m, raised
}

// TestSuccessesDoNotCountAgainstALogin, however many; failures before one do not
// vanish by it.
func TestSuccessesDoNotCountAgainstALogin(t *testing.T) {
	evidence.Proves(t, "AUT-05")
	s, _, _ := newMemory(t)
	login := func(password string) error {
		_, err := s.Login(t.Context(), Credentials{Login: "Alice", Password: secret.New(password), Address: netip.MustParseAddr("192.0.2.1")})
		return err
	}
	for range 10 {
		if err := login("correct horse battery"); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []Code{CodeUnauthenticated, CodeUnauthenticated} {
		if err := login("wrong"); CodeOf(err) != want {
			t.Fatalf("error is %v, want %s", err, want)
		}
	}
	if err := login("correct horse battery"); err != nil {
		t.Fatal(err)
	}
	if err := login("wrong"); CodeOf(err) != CodeUnauthenticated {
		t.Fatal(err)
	}
	var e *Error
	if err := login("correct horse battery"); CodeOf(err) != CodeRateLimited || !errors.As(err, &e) || e.Retry != time.Minute {
		t.Fatalf("after three failures: %v", err)
	}
}

// TestAFaultIsNotAWrongPassword: a password that nobody judged is no failure in
// the counts, of the login, the address or everybody, and no spike. Whoever fills
// the queue for hashing would else lock out everyone who waits in it.
func TestAFaultIsNotAWrongPassword(t *testing.T) {
	evidence.Proves(t, "AUT-05")
	for name, c := range map[string]struct {
		arrange func(*Service, *memory) (context.Context, context.CancelFunc)
		want    Code
	}{
		"the database is away": {func(_ *Service, m *memory) (context.Context, context.CancelFunc) {
			m.fault = errors.New("the database is away")
			return context.WithCancel(t.Context())
		}, ""},
		"too many hash at once": {func(s *Service, _ *memory) (context.Context, context.CancelFunc) {
			s.hasher.wait = time.Nanosecond
			for range cap(s.hasher.permits) {
				s.hasher.permits <- struct{}{}
			}
			return context.WithCancel(t.Context())
		}, CodeOverloaded},
		"the client leaves the queue": {func(s *Service, _ *memory) (context.Context, context.CancelFunc) {
			for range cap(s.hasher.permits) {
				s.hasher.permits <- struct{}{}
			}
			return context.WithTimeout(t.Context(), time.Millisecond)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, m, raised := newMemory(t)
			ctx, cancel := c.arrange(s, m)
			defer cancel()
			_, err := s.Login(ctx, Credentials{Login: "alice", Password: secret.New("correct horse battery")})
			if err == nil || CodeOf(err) != c.want {
				t.Fatalf("error is %v", err)
			}
			if *raised != 0 || m.counts[ScopeAll] != nil {
				t.Error("a fault counts as a failed login of everybody")
			}
			for _, scope := range []Scope{ScopeAddress, ScopeLogin} {
				for _, count := range m.counts[scope] {
					if count.Attempts != 1 || count.Failures != 0 {
						t.Errorf("%s: %d attempts and %d failures are counted, want 1 and 0", scope, count.Attempts, count.Failures)
					}
				}
			}
		})
	}
}

func TestTheAlarmIsRaisedOncePerSpike(t *testing.T) {
	evidence.Proves(t, "AUT-07")
	s, _, raised := newMemory(t)
	for i := range 20 {
		_, _ = s.Login(t.Context(), Credentials{Login: fmt.Sprint("user", i), Password: secret.New("wrong")})
	}
	if *raised != 1 {
		t.Errorf("%d alarms, want 1", *raised)
	}
}

// TestTheStoredHashIsCompared: a store that answers with another row opens nothing.
func TestTheStoredHashIsCompared(t *testing.T) {
	evidence.Proves(t, "AUT-03")
	s, _, _ := newMemory(t)
	token, err := s.Login(t.Context(), Credentials{Login: "alice", Password: secret.New("correct horse battery")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Authenticate(t.Context(), token.Text); CodeOf(err) != CodeUnauthenticated {
		t.Errorf("error is %v", err)
	}
}
