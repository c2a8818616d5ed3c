package osc

import (
	"fmt"

	"k8s.io/utils/ptr"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/internal/nodeagent/config"
)

// Provision returns the contents for the user data of new machines: it installs and starts the node agent.
func Provision(v Values) extensionsv1alpha1.OperatingSystemConfigSpec {
	return extensionsv1alpha1.OperatingSystemConfigSpec{
		DefaultSpec: extensionsv1alpha1.DefaultSpec{Type: v.Type, ProviderConfig: v.ProviderConfig},
		Purpose:     extensionsv1alpha1.OperatingSystemConfigPurposeProvision,
		CRIConfig:   v.criConfig(false),
		Files: []extensionsv1alpha1.File{
			inline(config.InitScript, executable, initScript(v.HortusImage)),
			inline(config.File, private, v.agentConfig()),
			placeholder(config.MachineNameFile, config.MachineNamePlaceholder),
			placeholder(config.BootstrapTokenFile, config.BootstrapTokenPlaceholder),
		},
		Units: []extensionsv1alpha1.Unit{
			containerdUnit(),
			{
				Name: config.InitUnitName, Enable: ptr.To(true), Command: ptr.To(extensionsv1alpha1.CommandStart),
				Content: ptr.To(initUnit),
			},
			agentUnit(),
		},
	}
}

// initUnit is skipped once the node agent is installed, since that then updates itself.
const initUnit = `[Unit]
Description=Installs the node agent at the first boot
After=containerd.service
Requires=containerd.service
ConditionPathExists=!` + config.Binary + `

[Service]
Type=oneshot
ExecStart=` + config.InitScript + `
Restart=on-failure
RestartSec=2

[Install]
WantedBy=multi-user.target
`

// initScript takes the program out of its image. The program is put into place by a rename, since its presence shows
// that the installation is complete.
func initScript(image string) string {
	return fmt.Sprintf(`#!/bin/sh
set -eu
image=%[1]s
echo "Installing the node agent from $image"
mkdir -p /opt/bin
ctr --namespace k8s.io images pull --hosts-dir %[2]s "$image" >/dev/null
directory=$(mktemp -d)
ctr --namespace k8s.io images mount "$image" "$directory" >/dev/null
trap 'ctr --namespace k8s.io images unmount --rm "$directory" >/dev/null; rmdir "$directory"' EXIT
cp "$directory%[3]s" %[4]s.new
chmod 0755 %[4]s.new
mv %[4]s.new %[4]s
`, image, config.ContainerdCertsDir, programInHortusImage, config.Binary)
}

// agentUnit is ordered after the unit that installs the program; if that fails, a later restart finds the program.
func agentUnit() extensionsv1alpha1.Unit {
	return extensionsv1alpha1.Unit{
		Name: config.UnitName, Enable: ptr.To(true), Command: ptr.To(extensionsv1alpha1.CommandStart),
		Content: ptr.To(`[Unit]
Description=Applies the configuration of the worker pool to this node
After=` + config.InitUnitName + ` containerd.service

[Service]
ExecStart=` + config.Binary + ` node-agent --config=` + config.File + `
Restart=always
RestartSec=2

[Install]
WantedBy=multi-user.target
`),
	}
}
