package machineinit

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// UserData configures a machine at its first boot. It has the shape of files and units in the spec of an
// OperatingSystemConfig, as YAML or JSON.
type UserData struct {
	Files []File `json:"files,omitempty"`
	Units []Unit `json:"units,omitempty"`
}

// File is a file to write.
type File struct {
	Path string `json:"path"`
	// Permissions are the mode bits as a number; default 0644.
	Permissions *uint32     `json:"permissions,omitempty"`
	Content     FileContent `json:"content"`
}

// FileContent holds the content itself; user data knows no other source.
type FileContent struct {
	Inline Inline `json:"inline"`
}

// Inline is the content of a file.
type Inline struct {
	// Encoding is "" for plain text or "b64" for base64.
	Encoding string `json:"encoding"`
	Data     string `json:"data"`
}

// Unit is a service to run.
type Unit struct {
	Name string `json:"name"`
	// Command is carried out when the user data is applied: start, restart or stop. Enabled units are started anyway.
	Command *string `json:"command,omitempty"`
	// Enable says whether the unit starts at boot; default true.
	Enable *bool `json:"enable,omitempty"`
	// Content of the unit file; nil if the image has it.
	Content *string  `json:"content,omitempty"`
	DropIns []DropIn `json:"dropIns,omitempty"`
}

// DropIn is a file <unit>.d/<name> that adds to a unit.
type DropIn struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// ParseUserData reads user data; empty input is an empty configuration.
func ParseUserData(raw []byte) (*UserData, error) {
	data := &UserData{}
	if err := yaml.Unmarshal(raw, data); err != nil {
		return nil, fmt.Errorf("parse user data: %w", err)
	}
	var errs []error
	for _, file := range data.Files {
		if !filepath.IsAbs(file.Path) {
			errs = append(errs, fmt.Errorf("user data: file %q has no absolute path", file.Path))
		}
		if _, err := file.Content.Inline.Decode(); err != nil {
			errs = append(errs, fmt.Errorf("user data: file %s: %w", file.Path, err))
		}
	}
	for _, unit := range data.Units {
		if unit.Name == "" || filepath.Base(unit.Name) != unit.Name {
			errs = append(errs, fmt.Errorf("user data: %q is not the name of a unit", unit.Name))
		}
	}
	return data, errors.Join(errs...)
}

// Decode returns the content of the file.
func (i Inline) Decode() ([]byte, error) {
	switch i.Encoding {
	case "":
		return []byte(i.Data), nil
	case "b64":
		content, err := base64.StdEncoding.DecodeString(i.Data)
		if err != nil {
			return nil, fmt.Errorf("decode base64: %w", err)
		}
		return content, nil
	}
	return nil, fmt.Errorf("unknown encoding %q", i.Encoding)
}
