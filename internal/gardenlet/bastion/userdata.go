package bastion

import (
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// userData returns the script that lets the owner of a public key connect to SSH servers through a machine. Options and
// comment of the key are dropped: they could do more.
func userData(publicKey string) ([]byte, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(publicKey))
	if err != nil {
		return nil, fmt.Errorf("spec.sshPublicKey: not a public key: %w", err)
	}
	return fmt.Appendf(nil, script, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))), nil
}

// script runs on any machine with cloud-init, and on those whose provider has made the user. The SSH server is that of
// the image. The key may open connections to port 22 of other machines, and can run no command here.
const script = `#!/bin/sh
# Lets the user gardener connect to SSH servers through this machine, and do nothing else on it.
set -eu

grep -q '^gardener:' /etc/passwd || useradd --create-home --user-group --shell /bin/sh gardener
mkdir -p /home/gardener/.ssh
cat >/home/gardener/.ssh/authorized_keys <<'end'
restrict,port-forwarding,permitopen="*:22",command="/bin/false" %s
end
chown -R gardener:gardener /home/gardener/.ssh
chmod 0700 /home/gardener/.ssh
chmod 0600 /home/gardener/.ssh/authorized_keys
if command -v systemctl >/dev/null; then
    systemctl enable --now ssh.service || systemctl enable --now sshd.service
fi
`
