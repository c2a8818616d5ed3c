package certificates

import "time"

// Row is one certificate, certificate authority or signing key, or several that differ only in their names.
type Row struct {
	// Names are the names in the configs of the Secrets, or the names of the files.
	Names []string
	// For is its purpose.
	For string
	// SignedBy is the name of the CA; empty for a self-signed CA and for a key.
	SignedBy string
	// Life is its validity; 0 means unlimited, which only keys have.
	Life time.Duration
	// LifeText replaces Life in the page if the validity depends on something.
	LifeText string
	// Renewal says who replaces it, and when.
	Renewal Renewal
	// TakenUp says how its users get the new one.
	TakenUp string
}

// Renewal says who replaces a certificate, and when.
type Renewal struct {
	Text string
	// From is the share of the lifetime after which it is replaced, 0 to 1; 0 if there is no fixed time.
	From float64
	// ByHand is true if somebody has to act before the certificate expires.
	ByHand bool
}

// Day and Year are the units of lifetimes.
const (
	Day  = 24 * time.Hour
	Year = 365 * Day
)

var (
	onReconcile         = Renewal{Text: "gardenlet, with a reconciliation after 80 % of the life", From: 0.8}
	byRotation          = Renewal{Text: "the owner of the Shoot, by a rotation of CAs", ByHand: true}
	onRequest           = Renewal{Text: "the client requests a new one"}
	byKubelet           = Renewal{Text: "kubelet, at 70 to 90 % of the life; the resource-manager approves", From: 0.7}
	byResourceManager   = Renewal{Text: "resource-manager, at 80 % of the life", From: 0.8}
	byProviderLocal     = Renewal{Text: "provider-local, at 80 % of the life", From: 0.8}
	byControllerManager = Renewal{Text: "controller manager, at 80 % of the life", From: 0.8}
	byOperator          = Renewal{Text: "the operator", ByHand: true}
	byUp                = Renewal{
		Text: "the operator, by `hortus up`, when less than a third of the life is left", From: 2. / 3, ByHand: true,
	}
	never = Renewal{Text: "not renewed; recreate the landscape", ByHand: true}
)

const (
	replaced = "its pods are replaced one after the other"
	server   = "API server replaced"
)

// ControlPlane are the Secrets that the gardenlet generates in a control plane namespace.
var ControlPlane = []Row{
	{Names: []string{"ca"}, For: "API server", Life: 10 * Year, Renewal: byRotation,
		TakenUp: "control plane and nodes, in the phases of the rotation; kubeconfigs are fetched anew"},
	{Names: []string{"ca-client"}, For: "clients of the API server, kubelets and node agents among them", Life: 10 * Year,
		Renewal: byRotation, TakenUp: "as above"},
	{Names: []string{"ca-etcd", "ca-etcd-peer"}, For: "etcd and its clients; its members", Life: 10 * Year,
		Renewal: byRotation, TakenUp: "etcd and API server, in the phases of the rotation"},
	{Names: []string{"ca-front-proxy"}, For: "the API server towards aggregated APIs", Life: 10 * Year,
		Renewal: byRotation, TakenUp: "API server, in the phases of the rotation"},
	{Names: []string{"ca-vpn"}, For: "both ends of the tunnel", Life: 10 * Year, Renewal: byRotation,
		TakenUp: "both ends and the API server, in the phases of the rotation"},
	{Names: []string{"ca-kubelet"}, For: "serving certificates of kubelets, and the API server as their client",
		Life: 10 * Year, Renewal: byRotation, TakenUp: "API server and nodes, in the phases of the rotation"},
	{Names: []string{"ca-metrics-server"}, For: "nothing yet; it is rotated with the others", Life: 10 * Year,
		Renewal: byRotation, TakenUp: "-"},
	{Names: []string{"kube-apiserver"}, For: "API server", SignedBy: "ca", Life: Year, Renewal: onReconcile,
		TakenUp: server},
	{Names: []string{"etcd-server", "etcd-peer"}, For: "etcd", SignedBy: "ca-etcd, ca-etcd-peer", Life: Year,
		Renewal: onReconcile, TakenUp: "nothing: etcd reads them for each connection"},
	{Names: []string{"etcd-client", "kube-aggregator", "kube-apiserver-http-proxy", "kube-apiserver-kubelet"},
		For:      "the API server towards etcd, aggregated APIs, the tunnel and kubelets",
		SignedBy: "ca-etcd, ca-front-proxy, ca-vpn, ca-kubelet", Life: Year, Renewal: onReconcile, TakenUp: server},
	{Names: []string{
		"kube-controller-manager", "kube-scheduler", "machine-controller-manager", "gardener-resource-manager",
	},
		For: "these towards the API server", SignedBy: "ca-client", Life: Year, Renewal: onReconcile, TakenUp: replaced},
	{Names: []string{"gardener"}, For: "the gardenlet towards the API server; also in `gardener-internal`",
		SignedBy: "ca-client", Life: Year, Renewal: onReconcile, TakenUp: "the next request uses it"},
	{Names: []string{"vpn-seed-server"}, For: "the tunnel's end in the seed", SignedBy: "ca-vpn", Life: Year,
		Renewal: onReconcile, TakenUp: replaced},
	{Names: []string{"gardener-resource-manager-webhooks"}, For: "the webhooks of a Shoot's resource-manager",
		SignedBy: "ca", Life: Year, Renewal: onReconcile, TakenUp: replaced},
	{Names: []string{"vpn-shoot-client"}, For: "the tunnel's end in the Shoot, where it lies in `kube-system`",
		SignedBy: "ca-vpn", Life: Year, Renewal: onReconcile, TakenUp: replaced},
	{Names: []string{"service-account-key"}, For: "tokens of service accounts",
		Renewal: Renewal{Text: "the owner of the Shoot, as often as wanted: `rotate-serviceaccount-key-start`; " +
			"[tokens in Secrets](controllers/gardenlet.md#rotations) must be listed to be replaced"},
		TakenUp: server},
	{Names: []string{"kube-apiserver-etcd-encryption-key"}, For: "encryption of etcd; signs nothing",
		Renewal: Renewal{Text: "the owner of the Shoot, as often as wanted: `rotate-etcd-encryption-key-start`"},
		TakenUp: server},
	{Names: []string{"ssh-keypair"}, For: "access to machines; signs nothing",
		Renewal: Renewal{Text: "the owner of the Shoot, as often as wanted: `rotate-ssh-keypair`"},
		TakenUp: "nodes get the new public key"},
}

// Shoot are the certificates for a Shoot that are not Secrets of its control plane.
var Shoot = []Row{
	{Names: []string{"kubelet, client"}, For: "a node towards the API server; on the node", SignedBy: "ca-client",
		Life: Year, Renewal: byKubelet, TakenUp: "kubelet, without a restart"},
	{Names: []string{"kubelet, serving"}, For: "logs, exec and metrics of a node; on the node", SignedBy: "ca-kubelet",
		Life: Year, Renewal: byKubelet, TakenUp: "kubelet, without a restart"},
	{Names: []string{"node agent"}, For: "the node agent towards the API server; on the node", SignedBy: "ca-client",
		Life: Year, Renewal: Renewal{Text: "node agent, at 80 % of the life; the resource-manager approves", From: 0.8},
		TakenUp: "the node agent restarts itself"},
	{Names: []string{"kube-controller-manager, kube-scheduler, serving"},
		For: "metrics and health; in memory, clients do not check them", SignedBy: "self", Life: Year,
		Renewal: Renewal{Text: "made at each start, the last one before the end with their client certificate"},
		TakenUp: "-"},
	{Names: []string{"`adminkubeconfig`, `viewerkubeconfig`"}, For: "people; with the person", SignedBy: "ca-client",
		LifeText: "as requested, at most 1 day by default", Renewal: onRequest, TakenUp: "-"},
}

// Garden are the certificates of the garden and of gardenlets that an operator has installed with the charts.
var Garden = []Row{
	{Names: []string{"gardenlet"}, For: "a gardenlet towards the garden; Secret `gardenlet-kubeconfig` of the seed",
		SignedBy: "the signer `kubernetes.io/kube-apiserver-client` of the garden",
		LifeText: "as the signer gives, 365 days by default; the first one so, too, or as the operator gives",
		Renewal: Renewal{From: 0.8,
			Text: "gardenlet, at 80 to 90 % of the life, or by `renew-kubeconfig`; the controller manager approves"},
		TakenUp: "gardenlet, without a restart"},
	{Names: []string{"webhooks of the resource-manager, CA"},
		For:  "the webhooks of a seed; Secret `gardener-resource-manager-webhooks` of the seed",
		Life: 10 * Year, Renewal: byResourceManager, TakenUp: "with the certificate below; the API server learns of it at once"},
	{Names: []string{"webhooks of the resource-manager"}, For: "the same; in the same Secret",
		SignedBy: "webhooks of the resource-manager, CA", Life: 90 * Day, Renewal: byResourceManager,
		TakenUp: "resource-manager, without a restart"},
	{Names: []string{"hortus-certificates, CA"},
		For:  "the garden's API and its etcd; Secret `hortus-certificates`, which the chart `garden` makes",
		Life: 10 * Year, Renewal: byOperator,
		TakenUp: "delete the Secret and upgrade the release: both are replaced, and the garden's API is away for seconds"},
	{Names: []string{"hortus-certificates"}, For: "`hortus-apiserver`, `hortus-etcd` and its client; in the same Secret",
		SignedBy: "hortus-certificates, CA", Life: Year, Renewal: byControllerManager,
		TakenUp: "nothing: API server and etcd read them when they change"},
	{Names: []string{"`hortus-apiserver`, `hortus-etcd`, and their CA"},
		For: "the same, where they are values of the chart `garden`", SignedBy: "the operator",
		LifeText: "as the operator gives", Renewal: byOperator, TakenUp: replaced},
	{Names: []string{"hortus-apiserver-encryption"}, For: "encryption of the garden's etcd; signs nothing",
		Renewal: Renewal{Text: "the operator, as often as wanted: `hortus garden rotate-etcd-encryption-key`"},
		TakenUp: replaced},
	{Names: []string{"kube-apiserver of the garden, its etcd, its clients"}, For: "the cluster that the garden runs on",
		SignedBy: "the operator", LifeText: "as the operator gives", Renewal: byOperator, TakenUp: "-"},
}

// LandscapeCluster are the certificates of each of the landscape's own clusters, by the field of its PKI; on its
// machine.
var LandscapeCluster = []Row{
	{Names: []string{"CA", "FrontProxyCA", "EtcdCA"}, For: "everything in the cluster", Life: 10 * Year, Renewal: never,
		TakenUp: "-"},
	{Names: []string{
		"APIServer", "APIServerKubelet", "APIServerEtcd", "FrontProxy", "EtcdServer", "Kubelet", "KubeletServing",
		"ControllerManager",
		"Scheduler", "SeedAuthorizer", "Admin",
	}, For: "its parts; `Admin` is that of `hortus` and of the kubeconfig", SignedBy: "CA, FrontProxyCA, EtcdCA",
		Life: 5 * Year, Renewal: byUp, TakenUp: "the machine"},
	{Names: []string{"ServiceAccountKey"}, For: "tokens of service accounts", Renewal: Renewal{Text: "never"},
		TakenUp: "-"},
}

// LandscapeWorker are the certificates of the landscape's additional nodes, by the field of their PKI; on their
// machines.
var LandscapeWorker = []Row{
	{Names: []string{"Kubelet", "KubeletServing"}, For: "a node without a control plane", SignedBy: "CA", Life: 5 * Year,
		Renewal: byUp, TakenUp: "the machine"},
}

// LandscapeGarden are the certificates of the garden in a landscape, by the field of its PKI; Secrets of the garden.
var LandscapeGarden = []Row{
	{Names: []string{"CA"}, For: "the garden's API and its etcd", Life: 10 * Year, Renewal: never, TakenUp: "-"},
	{Names: []string{"APIServer", "EtcdServer", "EtcdClient"}, For: "the garden's API and its etcd", SignedBy: "CA",
		Life: 5 * Year, Renewal: byUp, TakenUp: "API server; etcd reads them for each connection"},
}

// LandscapeOther are the landscape's other certificates.
var LandscapeOther = []Row{
	{Names: []string{"gardenlet, the first one"}, For: "as above; Secret `gardenlet-kubeconfig-garden` of the seed",
		SignedBy: "CA of the garden's cluster", Life: 5 * Year,
		Renewal: Renewal{
			Text: "gardenlet, as above; also `hortus up`, when less than a third of the life is left", From: 2. / 3,
		},
		TakenUp: "as above; `hortus up` restarts the gardenlet"},
	{Names: []string{"local cloud, CA"}, For: "the cloud's API; `ca.crt` of its state", Life: 10 * Year, Renewal: never,
		TakenUp: "-"},
	{Names: []string{"local cloud, serving"}, For: "the same; `server.crt` of its state", SignedBy: "local cloud, CA",
		Life: Year, Renewal: Renewal{
			Text: "`hortus cloud serve`, with the first connection of the last 60 days", From: 305. / 365,
		},
		TakenUp: "nothing"},
	{Names: []string{"webhooks of provider-local, CA"},
		For:  "the webhooks of the local provider; Secret `provider-local-webhooks` in the extension's namespace of the seed",
		Life: 10 * Year, Renewal: byProviderLocal, TakenUp: "with the certificate below; the API server learns of it at once"},
	{Names: []string{"webhooks of provider-local"}, For: "the same; in the same Secret",
		SignedBy: "webhooks of provider-local, CA", Life: 90 * Day, Renewal: byProviderLocal,
		TakenUp: "provider-local, without a restart"},
}
