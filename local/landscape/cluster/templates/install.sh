#!/bin/sh
# Takes the kubelet out of its image, unless it is the one that is installed.
set -eu
image={{ .Images.Kubelet }}
kubelet=/opt/bin/kubelet
if [ -x "$kubelet" ] && [ "$(cat "$kubelet.image" 2>/dev/null)" = "$image" ]; then
  exit 0
fi
mkdir -p /opt/bin
ctr --namespace k8s.io images pull --hosts-dir /etc/containerd/certs.d "$image" >/dev/null
directory=$(mktemp -d)
ctr --namespace k8s.io images mount "$image" "$directory" >/dev/null
trap 'ctr --namespace k8s.io images unmount --rm "$directory" >/dev/null; rmdir "$directory"' EXIT
cp "$directory/usr/local/bin/kubelet" "$kubelet.new"
chmod 0755 "$kubelet.new"
mv "$kubelet.new" "$kubelet"
echo "$image" > "$kubelet.image"
