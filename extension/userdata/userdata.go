// Package userdata renders user data for operating systems with systemd and cloud-init from an OperatingSystemConfig of
// purpose provision: a script that writes its files and starts its units. Cloud-init runs user data that begins with
// "#!", as many other programs do. Other formats, such as Ignition, are up to the extension of the operating system.
package userdata

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

const (
	unitDir = "/etc/systemd/system"

	defaultPermissions = 0o644
)

// Options are the capabilities of a provider and of a machine image.
type Options struct {
	// MaxBytes is the largest user data that the provider accepts, in bytes, before it is encoded for transport: 16384 on
	// AWS, for example. 0 means no limit.
	MaxBytes int
	// Gzip compresses content where that makes the script shorter. The image must have the program gzip. The script as a
	// whole cannot be compressed: placeholders in it are replaced for each machine.
	Gzip bool
}

// Script returns the script. Content must be inline: the caller resolves Secrets, and a machine cannot copy files from
// images before its first boot. Content marked with transmitUnencoded stays readable, so that placeholders in it can be
// replaced by values without single quotes.
//
// Units are enabled and restarted unless the configuration says otherwise. The script does not wait for them, so
// cloud-init is not delayed. Their order follows their After= settings.
func Script(spec *extensionsv1alpha1.OperatingSystemConfigSpec, o Options) ([]byte, error) {
	if errs := validate(spec); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	var out strings.Builder
	out.WriteString(prologue)
	for _, file := range spec.Files {
		content, err := file.Content.Inline.Decode()
		if err != nil {
			return nil, err // Validated before.
		}
		readable := ptr.Deref(file.Content.TransmitUnencoded, false)
		writeFile(&out, file.Path, ptr.Deref(file.Permissions, defaultPermissions), content, readable, o.Gzip)
	}
	for _, unit := range spec.Units {
		writeUnit(&out, unit, o.Gzip)
	}
	runUnits(&out, spec.Units)
	if size := out.Len(); o.MaxBytes > 0 && size > o.MaxBytes {
		return nil, fmt.Errorf("user data: too large: %d bytes (at most %d)", size, o.MaxBytes)
	}
	return []byte(out.String()), nil
}

// prologue: what a file contains may be secret, so nobody else may read it before it has its mode.
const prologue = `#!/bin/bash
set -euo pipefail
umask 077

# put PATH MODE: writes standard input into a file, which appears as a whole.
put() {
  (umask 022; mkdir -p "$(dirname "$1")")
  cat >"$1.new"
  chmod "$2" "$1.new"
  mv "$1.new" "$1"
}

`

// unitName matches names of units, which are also safe as names of files and in a shell.
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.[a-z]+$`)

func validate(spec *extensionsv1alpha1.OperatingSystemConfigSpec) field.ErrorList {
	var errs field.ErrorList
	for i, file := range spec.Files {
		at := field.NewPath("spec", "files").Index(i)
		if !path.IsAbs(file.Path) || path.Clean(file.Path) != file.Path || strings.Contains(file.Path, "\x00") {
			errs = append(errs, field.Invalid(at.Child("path"), file.Path, "must be an absolute path without . and .."))
		}
		if file.HostName != nil {
			errs = append(errs, field.Forbidden(at.Child("hostName"), "user data is the same for all machines"))
		}
		if file.Content.Inline == nil {
			errs = append(errs, field.Required(at.Child("content", "inline"), "a machine has nothing else at its first boot"))
			continue
		}
		content, err := file.Content.Inline.Decode()
		if err != nil {
			errs = append(errs, field.Invalid(at.Child("content", "inline"), file.Path, err.Error()))
		}
		if ptr.Deref(file.Content.TransmitUnencoded, false) && !isText(content) {
			errs = append(errs, field.Invalid(at.Child("content", "transmitUnencoded"), true, "the content must be UTF-8 text"))
		}
	}
	for i, unit := range spec.Units {
		at := field.NewPath("spec", "units").Index(i)
		if !unitName.MatchString(unit.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), unit.Name, "must be the name of a unit, like kubelet.service"))
		}
		for j, dropIn := range unit.DropIns {
			if path.Base(dropIn.Name) != dropIn.Name || !strings.HasSuffix(dropIn.Name, ".conf") {
				errs = append(errs, field.Invalid(at.Child("dropIns").Index(j).Child("name"), dropIn.Name,
					"must be the name of a file that ends in .conf"))
			}
		}
	}
	return errs
}

func isText(content []byte) bool { return utf8.Valid(content) && !bytes.ContainsRune(content, 0) }

// writeFile adds the commands for one file, in the shortest way.
func writeFile(out *strings.Builder, target string, mode uint32, content []byte, readable, compress bool) {
	var source string
	if isText(content) {
		source = "printf %s " + quote(string(content))
	}
	shorter := func(other string) {
		if source == "" || !readable && len(other) < len(source) {
			source = other
		}
	}
	shorter("echo " + base64.StdEncoding.EncodeToString(content) + " | base64 -d")
	if compress {
		shorter("echo " + base64.StdEncoding.EncodeToString(gzipped(content)) + " | base64 -d | gzip -d")
	}
	fmt.Fprintf(out, "%s | put %s %04o\n", source, quote(target), mode&0o7777)
}

func gzipped(content []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(fmt.Sprintf("compress into memory: %v", err)) // Only writers fail.
	}
	return out.Bytes()
}

// quote returns text as one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func writeUnit(out *strings.Builder, unit extensionsv1alpha1.Unit, compress bool) {
	if unit.Content != nil {
		writeFile(out, path.Join(unitDir, unit.Name), defaultPermissions, []byte(*unit.Content), false, compress)
	}
	for _, dropIn := range unit.DropIns {
		writeFile(out, path.Join(unitDir, unit.Name+".d", dropIn.Name), defaultPermissions, []byte(dropIn.Content), false,
			compress)
	}
}

// runUnits adds the commands that bring units into their states. A unit that runs already is restarted, since it was
// written just now.
func runUnits(out *strings.Builder, units []extensionsv1alpha1.Unit) {
	if len(units) == 0 {
		return
	}
	out.WriteString("\nsystemctl daemon-reload\n")
	for _, unit := range units {
		enabled := ptr.Deref(unit.Enable, true)
		verb := "disable"
		if enabled {
			verb = "enable"
		}
		fmt.Fprintf(out, "systemctl %s -- %s\n", verb, quote(unit.Name))
	}
	for _, unit := range units {
		command := ptr.Deref(unit.Command, extensionsv1alpha1.CommandRestart)
		verb := "restart"
		if command == extensionsv1alpha1.CommandStop || unit.Command == nil && !ptr.Deref(unit.Enable, true) {
			verb = "stop"
		}
		fmt.Fprintf(out, "systemctl --no-block %s -- %s\n", verb, quote(unit.Name))
	}
}
