package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"glovebox/system/server/internal/workers"
	"glovebox/system/server/internal/workers/adapters/postgres"
	"glovebox/system/testdb"
	"glovebox/threat-model/evidence"
)

func TestRemovalActsOnTheNextQuestion(t *testing.T) {
	evidence.Proves(t, "MTL-02")
	t.Parallel()
	db := testdb.New(t)
	operator, server := postgres.New(db.Pool(t, testdb.Operator)), postgres.New(db.Pool(t, testdb.ServerRole))
	ctx := t.Context()

	ask := func(id string, want bool) {
		t.Helper()
		got, err := server.Allowed(ctx, id)
		if err != nil || got != want {
			t.Fatalf("%q allowed: %v, %v; want %v", id, got, err, want)
		}
	}
	ask("w-1", false)
	if err := operator.Add(ctx, "w-1"); err != nil {
		t.Fatal(err)
	}
	ask("w-1", true)
	ask("W-1", false)
	ask("w-1' OR true --", false)
	if err := operator.Remove(ctx, "w-1"); err != nil {
		t.Fatal(err)
	}
	ask("w-1", false)
	if err := operator.Remove(ctx, "w-1"); !errors.Is(err, workers.ErrUnknown) {
		t.Fatalf("removing twice: %v", err)
	}
	if err := operator.Add(ctx, "w-1"); err != nil {
		t.Fatal(err)
	}
	ask("w-1", true)
	for _, id := range []string{"../w", "w_1", "w.1", "-w", "W-1", "", strings.Repeat("w", 64)} {
		if err := operator.Add(ctx, id); err == nil {
			t.Errorf("%q, which no certificate can carry, was added", id)
		}
	}
}

func TestTheServerNotesWorkersAndAdmitsNone(t *testing.T) {
	evidence.Proves(t, "DBS-02", "MTL-02")
	t.Parallel()
	db := testdb.New(t)
	operator, server := postgres.New(db.Pool(t, testdb.Operator)), postgres.New(db.Pool(t, testdb.ServerRole))
	ctx := t.Context()
	if err := server.Add(ctx, "w-1"); err == nil {
		t.Fatal("the serving role admitted a worker")
	}
	if err := operator.Add(ctx, "w-1"); err != nil {
		t.Fatal(err)
	}
	if err := server.Remove(ctx, "w-1"); err == nil {
		t.Fatal("the serving role removed a worker")
	}
	for _, free := range []int{3, 2, 2} {
		if err := server.Seen(ctx, "w-1", free, 4); err != nil {
			t.Fatal(err)
		}
	}
	list, err := server.List(ctx)
	if err != nil || len(list) != 1 {
		t.Fatalf("list: %v, %v", list, err)
	}
	w := list[0]
	if w.ID != "w-1" || !w.Allowed || w.LastSeenAt == nil || *w.SlotsFree != 2 || *w.SlotsTotal != 4 {
		t.Errorf("the worker is %+v", w)
	}
	if err := server.Seen(context.Background(), "w-1", 5, 4); err == nil {
		t.Error("more free slots than slots were noted")
	}
}
