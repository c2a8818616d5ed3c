package cluster

import (
	"bytes"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"hortus.dev/hortus/charts"
	"hortus.dev/hortus/internal/pki"
	"hortus.dev/hortus/local/machineinit"
)

//go:embed templates
var templates embed.FS

const (
	pkiDir      = "/etc/kubernetes/pki/"
	manifestDir = "/etc/kubernetes/manifests/"
	// etcdDir is the directory with the files of an etcd with backups.
	etcdDir     = "/etc/kubernetes/etcd/"
	modePrivate = 0o600
	modeExecute = 0o755
)

// UserData is the configuration with which the cluster's machine boots.
func UserData(v Values, p *PKI) ([]byte, error) {
	files := map[string][]byte{
		pkiDir + "ca.crt": p.CA.CertPEM, pkiDir + "ca.key": p.CA.KeyPEM,
		pkiDir + "front-proxy-ca.crt": p.FrontProxyCA.CertPEM,
		pkiDir + "etcd-ca.crt":        p.EtcdCA.CertPEM,
		pkiDir + "sa.key":             p.ServiceAccountKey, pkiDir + "sa.pub": p.ServiceAccountPublicKey,
	}
	for name, pair := range map[string]pki.KeyPair{
		"apiserver": p.APIServer, "apiserver-kubelet": p.APIServerKubelet, "apiserver-etcd": p.APIServerEtcd,
		"front-proxy": p.FrontProxy, "etcd": p.EtcdServer, "kubelet": p.KubeletServing,
	} {
		files[pkiDir+name+".crt"], files[pkiDir+name+".key"] = pair.CertPEM, pair.KeyPEM
	}
	for name, client := range map[string]pki.KeyPair{
		"kubelet": p.Kubelet, "controller-manager": p.ControllerManager, "scheduler": p.Scheduler,
	} {
		kubeconfig, err := pki.Kubeconfig{
			Name: v.Name, Server: "https://127.0.0.1:6443", CAPEM: p.CA.CertPEM, Client: &client,
		}.Render()
		if err != nil {
			return nil, fmt.Errorf("render kubeconfig of %s: %w", name, err)
		}
		files["/etc/kubernetes/"+name+".kubeconfig"] = kubeconfig
	}
	if v.SeedAuthorizer != nil {
		kubeconfig, err := pki.Kubeconfig{
			Name: "seed-authorizer", Server: v.SeedAuthorizer.Server, TLSServerName: v.SeedAuthorizer.TLSServerName,
			CAPEM: v.SeedAuthorizer.CA, Client: &p.SeedAuthorizer,
		}.Render()
		if err != nil {
			return nil, fmt.Errorf("render kubeconfig of the seed authorizer: %w", err)
		}
		configuration, err := charts.FS.ReadFile("garden/files/authorization.yaml")
		if err != nil {
			return nil, fmt.Errorf("read authorization configuration: %w", err)
		}
		files["/etc/kubernetes/seed-authorizer.kubeconfig"], files["/etc/kubernetes/authorization.yaml"] = kubeconfig,
			configuration
	}
	if v.EtcdBackup != nil {
		for key, value := range v.EtcdBackup.Store {
			files[etcdDir+"store/"+key] = []byte(value)
		}
		// Only the credentials that etcd needs, under the names that 'hortus etcd run' expects. Etcd's certificate is valid
		// for clients, too.
		files[etcdDir+"pki/ca.crt"] = p.EtcdCA.CertPEM
		for _, name := range []string{"server", "client"} {
			files[etcdDir+"pki/"+name+".crt"], files[etcdDir+"pki/"+name+".key"] = p.EtcdServer.CertPEM, p.EtcdServer.KeyPEM
		}
	}
	for name, path := range nodeFiles {
		var err error
		if files[path], err = render(name, v, p); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{
		"etcd.yaml", "kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml",
	} {
		var err error
		if files[manifestDir+name], err = render(name, v, p); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"encryption.yaml", "audit-policy.yaml"} {
		var err error
		if files["/etc/kubernetes/"+name], err = render(name, v, p); err != nil {
			return nil, err
		}
	}
	return encode(v, files)
}

// nodeFiles maps the templates of every node to the paths of their files.
var nodeFiles = map[string]string{
	"install.sh":   "/opt/hortus/install.sh",
	"routes.sh":    "/opt/hortus/routes.sh",
	"kubelet.yaml": "/etc/kubernetes/kubelet.yaml",
	"cni.conflist": "/etc/cni/net.d/10-bridge.conflist",
}

// WorkerUserData is the configuration with which a machine boots that joins the cluster as a further node.
func WorkerUserData(v Values, w Worker, p *PKI, credentials *WorkerPKI) ([]byte, error) {
	kubeconfig, err := pki.Kubeconfig{
		Name: v.Name, Server: "https://" + v.NodeAddress + ":6443", CAPEM: p.CA.CertPEM, Client: &credentials.Kubelet,
	}.Render()
	if err != nil {
		return nil, fmt.Errorf("render kubeconfig of the kubelet: %w", err)
	}
	files := map[string][]byte{
		pkiDir + "ca.crt":      p.CA.CertPEM,
		pkiDir + "kubelet.crt": credentials.KubeletServing.CertPEM, pkiDir + "kubelet.key": credentials.KubeletServing.KeyPEM,
		"/etc/kubernetes/kubelet.kubeconfig": kubeconfig,
	}
	v.Name, v.NodeAddress, v.Zone, v.Pods, v.Routes = w.Name, w.Address, w.Zone, w.Pods, w.Routes
	for name, path := range nodeFiles {
		if files[path], err = render(name, v, nil); err != nil {
			return nil, err
		}
	}
	return encode(v, files)
}

// encode makes user data of files and the kubelet's unit.
func encode(v Values, files map[string][]byte) ([]byte, error) {
	data := machineinit.UserData{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		mode := uint32(modePrivate)
		if strings.HasSuffix(path, ".sh") {
			mode = modeExecute
		}
		data.Files = append(data.Files, machineinit.File{
			Path: path, Permissions: ptr.To(mode),
			Content: machineinit.FileContent{Inline: machineinit.Inline{Data: string(files[path])}},
		})
	}
	kubelet, err := render("kubelet.service", v, nil)
	if err != nil {
		return nil, err
	}
	data.Units = []machineinit.Unit{{
		Name: "kubelet.service", Command: ptr.To("start"), Enable: ptr.To(true), Content: ptr.To(string(kubelet)),
	}}
	document, err := yaml.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encode user data: %w", err)
	}
	return append([]byte("#hortus-machine-config\n"), document...), nil
}

// Addons are the objects that make a cluster of the running control plane: kube-proxy and CoreDNS.
func Addons(v Values) ([]byte, error) { return render("addons.yaml", v, nil) }

func render(name string, v Values, p *PKI) ([]byte, error) {
	parsed, err := template.New(name).Option("missingkey=error").ParseFS(templates, "templates/"+name)
	if err != nil {
		return nil, fmt.Errorf("parse template %s: %w", name, err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, struct {
		Values
		PKI *PKI
	}{v, p}); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	return out.Bytes(), nil
}
