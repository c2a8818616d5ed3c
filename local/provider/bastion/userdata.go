package bastion

import (
	"fmt"
	"net/netip"

	"k8s.io/utils/ptr"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
	"hortus.dev/hortus/local/provider/operatingsystemconfig"
)

const (
	unitName       = "bastion.service"
	scriptPath     = "/opt/bin/bastion"
	userScriptPath = "/opt/bin/bastion-user-data"
	configPath     = "/etc/ssh/bastion_config"
	firewallPath   = "/etc/bastion.nft"
)

// userData wraps the user data of a Bastion, a script, in the form that machines of the cloud read. cidr and gateway
// are those of the Shoot's network.
func userData(script []byte, cidr, gateway string) ([]byte, error) {
	network, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, fmt.Errorf("parse CIDR of the Shoot's network: %w", err)
	}
	from, err := netip.ParseAddr(gateway)
	if err != nil {
		return nil, fmt.Errorf("parse gateway of the Shoot's network: %w", err)
	}
	file := func(path string, mode uint32, content string) extensionsv1alpha1.File {
		return extensionsv1alpha1.File{
			Path: path, Permissions: ptr.To(mode),
			Content: extensionsv1alpha1.FileContent{Inline: &extensionsv1alpha1.FileContentInline{Data: content}},
		}
	}
	return operatingsystemconfig.UserData([]extensionsv1alpha1.File{
		file(userScriptPath, 0o700, string(script)),
		file(scriptPath, 0o700, commands),
		file(configPath, 0o600, serverConfiguration),
		file(firewallPath, 0o600, fmt.Sprintf(firewall, from, from, network.Masked())),
	}, []extensionsv1alpha1.Unit{{
		Name: unitName, Enable: ptr.To(true), Command: ptr.To(extensionsv1alpha1.CommandStart), Content: ptr.To(unitContent),
	}})
}

// firewall lets in what comes from the load balancer, whose connections have the address of the gateway, and lets out
// connections to SSH servers in the Shoot's network, except to the gateway, which is the host of the cloud. All else is
// dropped, so the bastion is a way to nodes only. The first two lines make it repeatable.
const firewall = `table inet bastion
delete table inet bastion
table inet bastion {
  chain input {
    type filter hook input priority 0; policy drop;
    ct state established,related accept
    iif lo accept
    ip saddr %s tcp dport 22 accept
  }
  chain output {
    type filter hook output priority 0; policy drop;
    ct state established,related accept
    oif lo accept
    ip daddr %s drop
    ip daddr %s tcp dport 22 accept
  }
  chain forward {
    type filter hook forward priority 0; policy drop;
  }
}
`

// serverConfiguration: people get no shell and no terminal here, only connections to SSH servers.
const serverConfiguration = `AllowAgentForwarding no
AllowStreamLocalForwarding no
AllowTcpForwarding local
AllowUsers gardener
AuthenticationMethods publickey
ForceCommand /bin/false
GatewayPorts no
HostKey /var/lib/ssh-server/host-key
KbdInteractiveAuthentication no
PasswordAuthentication no
PermitOpen *:22
PermitRootLogin no
PermitTTY no
PermitTunnel no
PidFile none
PrintLastLog no
X11Forwarding no
`

const unitContent = `[Unit]
Description=SSH server of a bastion

[Service]
ExecStart=` + scriptPath + `
Restart=on-failure
RestartSec=1

[Install]
WantedBy=multi-user.target
`

// commands close the machine, run the user data of the Bastion, which sets the key of the user, and become the server.
// The user exists before, since the image has no program that adds one.
const commands = `#!/bin/sh
# Runs the bastion.
set -eu

account() { # NAME ID HOME SHELL
    grep -q "^$1:" /etc/passwd || echo "$1:x:$2:$2::$3:$4" >>/etc/passwd
    grep -q "^$1:" /etc/group || echo "$1:x:$2:" >>/etc/group
}

nft -f ` + firewallPath + `
account sshd 101 /run/sshd /usr/sbin/nologin
account gardener 1000 /home/gardener /bin/sh
mkdir -p /home/gardener /run/sshd /var/lib/ssh-server
chown gardener:gardener /home/gardener
chmod 0755 /run/sshd
chmod 0700 /home/gardener /var/lib/ssh-server
` + userScriptPath + `
key=/var/lib/ssh-server/host-key
if ! [ -s $key ]; then
    rm -f $key.new
    ssh-keygen -q -t ed25519 -N '' -C '' -f $key.new
    mv $key.new $key
fi
exec /usr/sbin/sshd -D -e -f ` + configPath + `
`
