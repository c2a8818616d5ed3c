package operatingsystemconfig

import (
	"slices"

	"k8s.io/utils/ptr"

	extensionsv1alpha1 "hortus.dev/hortus/api/extensions/v1alpha1"
)

const (
	sshServerUnit   = "sshd.service"
	sshServerConfig = "/etc/ssh/sshd_config"
	sshServerScript = "/opt/bin/ssh-server"
)

// sshServer returns the files and units of the SSH server of the image, if the machine has keys for people who log in.
// Without the unit the node agent stops it.
func sshServer(
	spec *extensionsv1alpha1.OperatingSystemConfigSpec,
) ([]extensionsv1alpha1.File, []extensionsv1alpha1.Unit) {
	hasKeys := func(f extensionsv1alpha1.File) bool { return f.Path == extensionsv1alpha1.AuthorizedKeysFile }
	if !slices.ContainsFunc(spec.Files, hasKeys) {
		return nil, nil
	}
	text := func(path string, mode uint32, content string) extensionsv1alpha1.File {
		return extensionsv1alpha1.File{
			Path: path, Permissions: ptr.To(mode), Content: extensionsv1alpha1.FileContent{Inline: inline([]byte(content))},
		}
	}
	files := []extensionsv1alpha1.File{
		text(sshServerConfig, defaultPermissions, sshServerConfiguration),
		text(sshServerScript, 0o755, sshServerCommands),
	}
	return files, []extensionsv1alpha1.Unit{{
		Name: sshServerUnit, Enable: ptr.To(true), Command: ptr.To(extensionsv1alpha1.CommandStart),
		Content:   ptr.To(sshServerContent),
		FilePaths: []string{sshServerConfig, sshServerScript},
	}}
}

// sshServerConfiguration: keys are read at each login, so that a rotation restarts nothing.
const sshServerConfiguration = `AllowUsers gardener
AuthenticationMethods publickey
AuthorizedKeysFile ` + extensionsv1alpha1.AuthorizedKeysFile + `
HostKey /var/lib/ssh-server/host-key
KbdInteractiveAuthentication no
PasswordAuthentication no
PermitRootLogin no
PidFile none
PrintLastLog no
Subsystem sftp internal-sftp
`

// sshServerContent does not wait until the server listens, and is skipped on machines whose image is too old to have
// one: the node agent continues, even if the server fails.
const sshServerContent = `[Unit]
Description=SSH server for people who log in
ConditionPathExists=/usr/sbin/sshd

[Service]
ExecStart=` + sshServerScript + ` start
ExecStop=` + sshServerScript + ` end-sessions
Restart=on-failure
RestartSec=1

[Install]
WantedBy=multi-user.target
`

// sshServerCommands creates missing files of the server: /etc comes from the image with which the machine was made. The
// host key is on the disk that is kept, so that a machine has the same key after a reboot, and published. Sessions
// outlive their server; the file of their program distinguishes them from sessions of servers in pods.
const sshServerCommands = `#!/bin/sh
# Runs the SSH server of this machine, and ends its sessions.
set -eu

account() { # NAME ID HOME SHELL
    grep -q "^$1:" /etc/passwd || echo "$1:x:$2:$2::$3:$4" >>/etc/passwd
    grep -q "^$1:" /etc/group || echo "$1:x:$2:" >>/etc/group
}

case ${1:-} in
start)
    account sshd 101 /run/sshd /usr/sbin/nologin
    account gardener 1000 /home/gardener /bin/sh
    mkdir -p /home/gardener /run/sshd /var/lib/ssh-server
    chown gardener:gardener /home/gardener
    chmod 0755 /run/sshd
    chmod 0700 /home/gardener /var/lib/ssh-server
    key=/var/lib/ssh-server/host-key
    if ! [ -s $key ]; then
        rm -f $key.new
        ssh-keygen -q -t ed25519 -N '' -C '' -f $key.new
        mv $key.new $key
    fi
    ssh-keygen -y -f $key >` + extensionsv1alpha1.SSHHostKeyFile + `
    exec /usr/sbin/sshd -D -e -f ` + sshServerConfig + `
    ;;
end-sessions)
    for program in /proc/[0-9]*/exe; do
        if [ "$program" -ef /usr/sbin/sshd ] || [ "$program" -ef /usr/lib/openssh/sshd-session ]; then
            process=${program#/proc/}
            kill "${process%/exe}" || true
        fi
    done
    ;;
*)
    echo "usage: $0 start|end-sessions" >&2
    exit 1
    ;;
esac
`
