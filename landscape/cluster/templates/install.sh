#!/bin/sh
# Takes the kubelet out of its image.
set -eu
image={{ .Images.Kubelet }}
mkdir -p /opt/bin
ctr --namespace k8s.io images pull --hosts-dir /etc/containerd/certs.d "$image" >/dev/null
directory=$(mktemp -d)
ctr --namespace k8s.io images mount "$image" "$directory" >/dev/null
trap 'ctr --namespace k8s.io images unmount --rm "$directory" >/dev/null; rmdir "$directory"' EXIT
cp "$directory/usr/local/bin/kubelet" /opt/bin/kubelet.new
chmod 0755 /opt/bin/kubelet.new
mv /opt/bin/kubelet.new /opt/bin/kubelet
