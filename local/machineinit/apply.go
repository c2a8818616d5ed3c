package machineinit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// UnitDir is the directory in which unit files are written and enabled.
const UnitDir = "/etc/systemd/system"

// applied is written once user data is applied, with its checksum. It lies on both disks of a machine: the data disk
// alone would hide that a new root (another machine image) has lost the files.
var applied = []string{"/var/lib/hortus-machine/user-data.sha256", "/etc/hortus-machine/user-data.sha256"}

// needsApply reports whether user data has to be applied: at the first boot, and when it or the root has changed.
// Otherwise it must not be, since agents have changed files since then.
func needsApply(root string, userData []byte) bool {
	sum := checksum(userData)
	for _, marker := range applied {
		content, err := os.ReadFile(filepath.Join(root, marker))
		if err != nil || string(content) != sum {
			return true
		}
	}
	return false
}

func markApplied(root string, userData []byte) error {
	for _, marker := range applied {
		if err := writeFile(filepath.Join(root, marker), []byte(checksum(userData)), 0o644); err != nil {
			return fmt.Errorf("record that user data is applied: %w", err)
		}
	}
	return nil
}

func checksum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// apply writes files, unit files and drop-ins below root. Everything that can be written is, also after an error.
func (u *UserData) apply(root string) error {
	var errs []error
	for _, file := range u.Files {
		content, err := file.Content.Inline.Decode()
		if err == nil {
			mode := fs.FileMode(0o644)
			if file.Permissions != nil {
				mode = fs.FileMode(*file.Permissions) & fs.ModePerm
			}
			err = writeFile(filepath.Join(root, file.Path), content, mode)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("apply file %s: %w", file.Path, err))
		}
	}
	for _, unit := range u.Units {
		if err := unit.write(filepath.Join(root, UnitDir)); err != nil {
			errs = append(errs, fmt.Errorf("apply unit %s: %w", unit.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (u *Unit) write(dir string) error {
	if u.Content != nil {
		if err := writeFile(filepath.Join(dir, u.Name), []byte(*u.Content), 0o644); err != nil {
			return err
		}
	}
	for _, dropIn := range u.DropIns {
		if err := writeFile(filepath.Join(dir, u.Name+".d", filepath.Base(dropIn.Name)), []byte(dropIn.Content),
			0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeFile makes the file and its directories; a file in place is replaced at once, never half written.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, mode); err != nil {
		return err
	}
	if err := os.Chmod(temporary, mode); err != nil { // Whatever the umask is, and if an older one was left.
		return err
	}
	return os.Rename(temporary, path)
}
