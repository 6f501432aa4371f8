package attacks

import (
	"context"
	"crypto/tls"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"glovebox/attacks/forge"
	"glovebox/attacks/harness"
	"glovebox/attacks/oracle"
)

// What a case on this machine may stand on: the folders of the system under
// attack, its authorities' keys as if they were stolen, its database as each of
// its roles.

// statePath is a path below the folder in which the system keeps everything.
func statePath(e *harness.Env, name string) string {
	return filepath.Join(filepath.Dir(e.Endpoint.BinDir), name)
}

// readState returns what a file there holds, without the last line break.
func readState(e *harness.Env, name string) string {
	content, err := os.ReadFile(statePath(e, name))
	e.Must(err, "read %s", name)
	return strings.TrimRight(string(content), "\n")
}

// stolen is the key of one of the system's authorities.
func stolen(e *harness.Env, authority string) *forge.Authority {
	a, err := forge.StolenFrom(statePath(e, "pki"), authority)
	e.Must(err, "steal the key of %s", authority)
	return a
}

const (
	internalCA = "internal-ca"
	publicCA   = "public-ca"

	workerName = "spiffe://glovebox/worker/"
	ingestName = "spiffe://glovebox/ingest/"
)

// showing is a configuration for the internal API that shows pair.
func showing(e *harness.Env, pair tls.Certificate) *tls.Config {
	config, err := e.InternalTLS("")
	e.Must(err, "trust the internal authority")
	// GetClientCertificate, not Certificates: the library would show none that the
	// server's list of authorities does not fit.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return config
}

// listed puts a worker that no other case knows on the server's list, and returns
// its id. It stays there: the system goes when the run is over.
func listed(e *harness.Env) string {
	id := "x" + harness.RandomHex(6)
	_, err := e.Admin(e.Context(), "", "worker", "add", id)
	e.Must(err, "list a worker")
	return id
}

// ownWorker is a listed worker with a certificate of the right authority.
func ownWorker(e *harness.Env) *harness.Worker {
	id := listed(e)
	return e.WorkerWith(id, showing(e, forged(e, forge.Client(workerName+id))))
}

// forged signs leaf with the internal authority.
func forged(e *harness.Env, leaf forge.Leaf) tls.Certificate {
	pair, err := stolen(e, internalCA).Sign(leaf)
	e.Must(err, "forge a certificate")
	return pair
}

// observer is the database as the observer sees it.
func observer(e *harness.Env) *oracle.Database {
	db, err := oracle.OpenDatabase(e.Context(), e.Endpoint.DatabaseURL)
	e.Must(err, "observe the database")
	e.Cleanup(func(context.Context) error { db.Close(); return nil })
	return db
}

// roleURL is the login of one of the roles that have a file: server, sweeper,
// operator, migrator.
func roleURL(e *harness.Env, role string) string {
	if role == "observer" {
		return e.Endpoint.DatabaseURL
	}
	return readState(e, "secrets/"+role+".url")
}

// asRole connects to the database as a role.
func asRole(e *harness.Env, role string) *pgx.Conn { return connect(e, roleURL(e, role)) }

// asSuperuser connects as the cluster's administrator: the oracle that sees every
// row, whoever may not.
func asSuperuser(e *harness.Env) *pgx.Conn {
	u, err := url.Parse(e.Endpoint.DatabaseURL)
	e.Must(err, "read the database's address")
	u.User = url.UserPassword("postgres", readState(e, "pg/admin-password"))
	return connect(e, u.String())
}

func connect(e *harness.Env, address string) *pgx.Conn {
	conn, err := pgx.Connect(e.Context(), address)
	if err != nil {
		e.Fail("connect to the database: SQLSTATE %s", oracle.SQLState(err)) // the cause may repeat the address
	}
	e.Cleanup(conn.Close)
	return conn
}

// number asks for one number.
func number(e *harness.Env, conn *pgx.Conn, query string, args ...any) (n int64) {
	e.Must(conn.QueryRow(e.Context(), query, args...).Scan(&n), "ask the database")
	return n
}

// jobRow is a job as the observer sees it.
func jobRow(e *harness.Env, db *oracle.Database, id string) oracle.Job {
	j, err := db.Job(e.Context(), id)
	e.Must(err, "look at the job")
	return j
}

// untouched returns a check that a job's row and history are what they are now.
func untouched(e *harness.Env, db *oracle.Database, id string) func(doing string) {
	seen := func() (oracle.Job, []oracle.Event) {
		events, err := db.History(e.Context(), id)
		e.Must(err, "look at the job's history")
		j := jobRow(e, db, id)
		return j, events
	}
	row, history := seen()
	return func(doing string) {
		now, events := seen()
		e.Check(now == row && len(events) == len(history), "%s: the job was %+v and is %+v, its history %v", doing, row, now, events)
	}
}

// disk is the storage root as it lies there.
func disk(e *harness.Env) oracle.Inventory {
	all, err := oracle.Disk(e.Endpoint.StorageRoot, true)
	e.Must(err, "look at the storage")
	return all
}

// stored returns the path of the one file in storage with these bytes, "" where
// there is none.
func stored(e *harness.Env, content []byte) string {
	sum := harness.Hash(content)
	for path, entry := range disk(e) {
		if entry.SHA256 == sum {
			return filepath.Join(e.Endpoint.StorageRoot, path)
		}
	}
	return ""
}
