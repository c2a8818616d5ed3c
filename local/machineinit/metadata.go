package machineinit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// InstanceDir is the directory in which the cloud puts metadata.json, user-data and ca.crt.
const InstanceDir = "/run/hortus-instance"

// Metadata is the cloud's description of the instance.
type Metadata struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Address     string `json:"address"`
	CIDR        string `json:"cidr"`
	Gateway     string `json:"gateway"`
	MachineType string `json:"machineType"`
	CPU         int    `json:"cpu"`
	// MemoryBytes is the memory of the machine type; 0 means the host's.
	MemoryBytes int64  `json:"memoryBytes"`
	Region      string `json:"region"`
	Zone        string `json:"zone"`
	// DNS is the address of the name server; empty leaves /etc/resolv.conf as it is.
	DNS string `json:"dns"`
	// Registry is the URL images are pulled from, whatever their name; empty means their own registries.
	Registry string `json:"registry"`
	// RegistryPassword is the password at the registry, with ID as user name; empty if the registry needs no
	// credentials.
	RegistryPassword string `json:"registryPassword"`
	ImageVersion     string `json:"imageVersion"`
	ProviderID       string `json:"providerID"`
}

// Instance is the content of InstanceDir.
type Instance struct {
	Metadata Metadata
	UserData []byte // Empty if the machine was made without.
	CA       []byte // PEM; empty if the cloud's endpoints need none.
}

// ReadInstance reads an instance directory. User data and CA may be missing.
func ReadInstance(dir string) (*Instance, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "metadata.json"))
	if err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	instance := &Instance{}
	if err := json.Unmarshal(raw, &instance.Metadata); err != nil {
		return nil, fmt.Errorf("parse metadata: %w", err)
	}
	if instance.UserData, err = readOptional(filepath.Join(dir, "user-data")); err != nil {
		return nil, fmt.Errorf("read user data: %w", err)
	}
	if instance.CA, err = readOptional(filepath.Join(dir, "ca.crt")); err != nil {
		return nil, fmt.Errorf("read CA of the cloud: %w", err)
	}
	return instance, nil
}

func readOptional(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}
