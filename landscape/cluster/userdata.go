package cluster

import (
	"fmt"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/internal/machine"
	"hortus.dev/hortus/internal/pki"
)

const (
	pkiDir        = "/etc/kubernetes/pki"
	manifestDir   = "/etc/kubernetes/manifests"
	kubeletConfig = "/var/lib/kubelet/config.yaml"
	localServer   = "https://127.0.0.1:6443"

	kubeletKubeconfig           = "/etc/kubernetes/kubelet.conf"
	controllerManagerKubeconfig = "/etc/kubernetes/controller-manager.conf"
	schedulerKubeconfig         = "/etc/kubernetes/scheduler.conf"

	private  = 0o600
	readable = 0o644
	script   = 0o755
)

// UserData renders the user data of the cluster's instance.
func UserData(v Values) ([]byte, error) {
	dns, err := v.serviceIP(dnsIPIndex)
	if err != nil {
		return nil, err
	}
	data := &machine.UserData{Files: v.pkiFiles()}
	kubeconfigs, err := v.kubeconfigs()
	if err != nil {
		return nil, err
	}
	data.Files = append(data.Files, kubeconfigs...)
	for _, pod := range v.staticPods() {
		content, err := renderPod(pod)
		if err != nil {
			return nil, fmt.Errorf("render static pod %s: %w", pod.Name, err)
		}
		data.Files = append(data.Files, file(manifestDir+"/"+pod.Name+".yaml", private, content))
	}
	data.Files = append(data.Files,
		file(kubeletConfig, private, v.kubeletConfig(dns.String())),
		file("/opt/bin/install-kubelet", script, installKubelet(v.Images.Kubelet)),
		file("/etc/cni/net.d/10-bridge.conflist", readable, v.cniConfig()),
	)
	data.Units = []machine.Unit{
		{Name: "kubelet-install.service", Enable: ptr.To(true), Content: ptr.To(installUnit)},
		{Name: "kubelet.service", Enable: ptr.To(true), Content: ptr.To(v.kubeletUnit())},
	}
	encoded, err := yaml.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("render user data of cluster %s: %w", v.Name, err)
	}
	return append([]byte("#hortus-machine-config\n"), encoded...), nil
}

func file(path string, mode uint32, content string) machine.File {
	return machine.File{Path: path, Permissions: ptr.To(mode), Content: machine.FileContent{Inline: machine.Inline{Data: content}}}
}

func (v Values) pkiFiles() []machine.File {
	var files []machine.File
	for _, f := range []struct {
		name    string
		pair    pki.KeyPair
		withKey bool
	}{
		{"ca", v.PKI.CA, true}, // kube-controller-manager signs with the key.
		{"front-proxy-ca", v.PKI.FrontProxyCA, false},
		{"etcd-ca", v.PKI.EtcdCA, false},
		{"apiserver", v.PKI.Server, true},
		{"kubelet-client", v.PKI.KubeletClient, true},
		{"kubelet", v.PKI.KubeletServer, true},
		{"apiserver-kubelet-client", v.PKI.APIToKubelet, true},
		{"front-proxy-client", v.PKI.FrontProxyClient, true},
		{"etcd", v.PKI.EtcdServer, true},
		{"etcd-client", v.PKI.EtcdClient, true},
		{"sa", v.PKI.ServiceAccount, true},
	} {
		files = append(files, file(pkiDir+"/"+f.name+".crt", readable, string(f.pair.CertPEM)))
		if f.withKey {
			files = append(files, file(pkiDir+"/"+f.name+".key", private, string(f.pair.KeyPEM)))
		}
	}
	return files
}

func (v Values) kubeconfigs() ([]machine.File, error) {
	var files []machine.File
	for _, k := range []struct {
		path string
		pair pki.KeyPair
	}{
		{kubeletKubeconfig, v.PKI.KubeletClient},
		{controllerManagerKubeconfig, v.PKI.ControllerManager},
		{schedulerKubeconfig, v.PKI.Scheduler},
	} {
		content, err := pki.Kubeconfig{Name: v.Name, Server: localServer, CAPEM: v.PKI.CA.CertPEM, Client: &k.pair}.Render()
		if err != nil {
			return nil, err
		}
		files = append(files, file(k.path, private, string(content)))
	}
	return files, nil
}

const installUnit = `[Unit]
Description=Installs the kubelet out of its image
After=containerd.service
Requires=containerd.service

[Service]
Type=oneshot
ExecStart=/opt/bin/install-kubelet
Restart=on-failure
RestartSec=1

[Install]
WantedBy=multi-user.target
`

// installKubelet takes the kubelet out of its image, unless the one in place came out of the same image.
func installKubelet(image string) string {
	return fmt.Sprintf(`#!/bin/sh
set -eu
image=%s
installed=/opt/bin/kubelet.image
if [ -x /opt/bin/kubelet ] && [ "$(cat $installed 2>/dev/null)" = "$image" ]; then
  exit 0
fi
ctr --namespace k8s.io images pull --hosts-dir /etc/containerd/certs.d "$image" >/dev/null
directory=$(mktemp -d)
ctr --namespace k8s.io images mount "$image" "$directory" >/dev/null
trap 'ctr --namespace k8s.io images unmount --rm "$directory" >/dev/null; rmdir "$directory"' EXIT
cp "$directory/usr/local/bin/kubelet" /opt/bin/kubelet.new
chmod 0755 /opt/bin/kubelet.new
mv /opt/bin/kubelet.new /opt/bin/kubelet
echo "$image" > $installed
`, image)
}

func (v Values) kubeletUnit() string {
	return `[Unit]
Description=Kubernetes kubelet
After=containerd.service kubelet-install.service

[Service]
EnvironmentFile=-/var/lib/kubelet/extra_args
ExecStart=` + strings.Join([]string{
		"/opt/bin/kubelet",
		"--kubeconfig=" + kubeletKubeconfig,
		"--config=" + kubeletConfig,
		"--node-labels=worker.gardener.cloud/pool=" + nodePool,
		"$KUBELET_EXTRA_ARGS",
	}, ` \`+"\n    ") + `
Restart=always
RestartSec=1
KillMode=process

[Install]
WantedBy=multi-user.target
`
}

// kubeletConfig is for a machine that is a container: it shares kernel and disk with the host (see package osc, which
// has the reasons one by one).
func (v Values) kubeletConfig(dns string) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[1]s/ca.crt}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /
clusterDNS: [%[2]s]
clusterDomain: %[3]s
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {memory.available: 100Mi, nodefs.available: 1Gi, imagefs.available: 1Gi, nodefs.inodesFree: "1%%"}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
makeIPTablesUtilChains: false
maxPods: %[4]d
registryPullQPS: 0
resolvConf: /etc/resolv.conf
serializeImagePulls: false
staticPodPath: %[5]s
tlsCertFile: %[1]s/kubelet.crt
tlsPrivateKeyFile: %[1]s/kubelet.key
`, pkiDir, dns, ClusterDomain, maxPods, manifestDir)
}

// cniConfig gives pods addresses behind a bridge. With one node all of the pod network is its own. Traffic that leaves
// the pod network gets the instance's address, which is all that the cloud's network knows.
func (v Values) cniConfig() string {
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": "bridge",
  "plugins": [
    {
      "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
      "ipMasq": true, "ipMasqBackend": "nftables",
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "%s"}]], "routes": [{"dst": "0.0.0.0/0"}]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}, "backend": "nftables"}
  ]
}
`, v.PodCIDR)
}
