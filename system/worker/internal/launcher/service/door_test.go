package service

import (
	"os"
	"path/filepath"
	"testing"

	"glovebox/threat-model/evidence"
)

func TestARootlessDoorIsAFolderForTheWorkerAlone(t *testing.T) {
	evidence.Proves(t, "SBX-09")
	for mode, good := range map[os.FileMode]bool{0o710: true, 0o700: true, 0o750: true, 0o711: false, 0o770: false, 0o714: false, 0o777: false} {
		dir := filepath.Join(t.TempDir(), "door")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := closedFolder(dir); (err == nil) != good {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.Mkdir(foreign, 0o710); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(foreign, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if err := closedFolder(foreign); err == nil {
		t.Error("a folder of another user's is taken")
	}
}

func TestThePeerOfTheHostsRootIsKnownByNumber(t *testing.T) {
	evidence.Proves(t, "SBX-09")
	if uid, unique := (Config{PeerUID: 4711}).peerID(); uid != 4711 || !unique {
		t.Errorf("%d, %v", uid, unique)
	}
}
