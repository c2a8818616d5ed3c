package seedauthorizer

import (
	"slices"
	"strings"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
	securityv1alpha1 "hortus.dev/hortus/api/security/v1alpha1"
	seedmanagementv1alpha1 "hortus.dev/hortus/api/seedmanagement/v1alpha1"
	"hortus.dev/hortus/internal/ownership"
)

var (
	read       = []string{"get"}
	collection = []string{"list", "watch"}
	reads      = []string{"get", "list", "watch"}
	change     = []string{"patch"}
	create     = []string{"create"}
	remove     = []string{"delete"}
	report     = []string{"create", "patch"} // A repeated event is patched.
	publish    = []string{"get", "create", "patch"}
	readWrite  = []string{"get", "create", "patch", "delete"}
	everything = []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	withStatus = []string{"", "status"}
)

// relation is a condition on the object of a request and the caller's Seed.
type relation struct {
	// text completes "allowed only where the object is ...".
	text  string
	holds func(Request, Kind, *Graph) bool
}

var (
	anything = relation{"any", func(Request, Kind, *Graph) bool { return true }}
	// judged leaves the decision to admission, which has the object: a create request often has no name.
	judged = relation{"one that admission finds to belong to the seed",
		func(r Request, _ Kind, _ *Graph) bool { return true }}
	own = relation{"on the seed", func(r Request, kind Kind, g *Graph) bool {
		return g.Belongs(r.ref(kind), r.Seed)
	}}
	needed = relation{"needed by something on the seed", func(r Request, kind Kind, g *Graph) bool {
		return g.Needed(r.ref(kind), r.Seed)
	}}
	itself = relation{"the seed itself, by name", func(r Request, _ Kind, _ *Graph) bool { return r.Name == r.Seed }}
	// gardenletOfSeed also matches one that does not exist, so that the gardenlet finds out.
	gardenletOfSeed = relation{"named as the seed, in namespace " + corev1beta1.GardenNamespace,
		func(r Request, _ Kind, _ *Graph) bool {
			return r.Namespace == corev1beta1.GardenNamespace && r.Name == r.Seed
		}}
	// ofManagedSeedOn matches the Seed of a ManagedSeed, which has the same name.
	ofManagedSeedOn = relation{"of a ManagedSeed whose Shoot is on the seed", func(r Request, _ Kind, g *Graph) bool {
		return r.Name != "" && g.Needed(Ref{ManagedSeed, corev1beta1.GardenNamespace, r.Name}, r.Seed)
	}}
	// marked objects have the label of the Seeds that they belong to, which only the API server sets.
	marked = relation{"selected by the label of the seed", func(r Request, _ Kind, _ *Graph) bool {
		return r.Labels[corev1beta1.LabelPrefixSeedName+r.Seed] == "true"
	}}
	inOwnNamespace = relation{"in the seed's namespace", func(r Request, _ Kind, _ *Graph) bool {
		return r.Namespace == r.ownNamespace()
	}}
	// extensionAccount matches the ServiceAccounts that extensions in the seed act as. Others in the namespace belong to
	// operators.
	extensionAccount = relation{"extension-* in the seed's namespace", func(r Request, _ Kind, _ *Graph) bool {
		return r.Namespace == r.ownNamespace() && strings.HasPrefix(r.Name, corev1beta1.ExtensionNamespacePrefix)
	}}
	ownLease = relation{"the seed's Lease", func(r Request, _ Kind, _ *Graph) bool {
		return r.Namespace == corev1beta1.SeedLeaseNamespace && r.Name == r.Seed
	}}
	ofOwnProject = relation{"selected by a namespace with Shoots on the seed", func(r Request, _ Kind, g *Graph) bool {
		return g.Needed(Ref{Namespace, "", r.Fields["spec.namespace"]}, r.Seed)
	}}
	alongsideOwn = relation{"in a namespace with Shoots on the seed", func(r Request, _ Kind, g *Graph) bool {
		return g.Needed(Ref{Namespace, "", r.Namespace}, r.Seed)
	}}
	namedAsShoot = relation{"named as a Shoot on the seed", func(r Request, _ Kind, g *Graph) bool {
		return r.Name != "" && g.Belongs(Ref{Shoot, r.Namespace, r.Name}, r.Seed)
	}}
	// uidOfSeed also matches buckets that do not exist yet.
	uidOfSeed = relation{"named by the UID of the seed", func(r Request, _ Kind, g *Graph) bool {
		ref, ok := g.ByUID(r.Name)
		return ok && ref == Ref{Seed, "", r.Seed}
	}}
	// uidOfShoot also matches BackupEntries that do not exist yet.
	uidOfShoot = relation{"named by the UID of a Shoot on the seed", func(r Request, _ Kind, g *Graph) bool {
		_, uid := cutLast(r.Name, "--")
		ref, ok := g.ByUID(uid)
		return ok && ref.Kind == Shoot && ref.Namespace == r.Namespace && g.Belongs(ref, r.Seed)
	}}
	// controlPlaneLease matches a Lease that exists as soon as a gardenlet has started operations on the Shoot.
	controlPlaneLease = relation{"control-plane-<UID> of a Shoot on the seed", func(r Request, _ Kind, g *Graph) bool {
		uid, ok := strings.CutPrefix(r.Name, ownership.NamePrefix)
		ref, known := g.ByUID(uid)
		return ok && known && ref.Kind == Shoot && ref.Namespace == r.Namespace && g.Belongs(ref, r.Seed)
	}}
	// leftLease is for a Seed that was declared dead and comes back: it finds the Lease in its namespace, even if the
	// Shoot no longer exists.
	leftLease = relation{"control-plane-<UID> of a Shoot on the seed, in the namespace of another seed",
		func(r Request, _ Kind, g *Graph) bool {
			uid, ok := strings.CutPrefix(r.Name, ownership.NamePrefix)
			ref, known := g.ByUID(uid)
			return ok && known && ref.Kind == Shoot && strings.HasPrefix(r.Namespace, corev1beta1.SeedNamespacePrefix) &&
				g.Belongs(ref, r.Seed)
		}}
	// anyControlPlaneLease shows a Seed that another Seed has taken over one of its control planes.
	anyControlPlaneLease = relation{"control-plane-<UID>", func(r Request, _ Kind, _ *Graph) bool {
		return strings.HasPrefix(r.Name, ownership.NamePrefix)
	}}
	issuerKey = relation{"the issuer key of a Shoot on the seed", func(r Request, _ Kind, g *Graph) bool {
		project, uid := cutLast(r.Name, "--")
		ref, ok := g.ByUID(uid)
		return ok && r.Namespace == corev1beta1.ShootIssuerNamespace && ref.Kind == Shoot && g.Belongs(ref, r.Seed) &&
			g.projectIs(project, ref.Namespace)
	}}
)

// fromBucket matches the Secret that the extension generates for access to a bucket and the gardenlet publishes.
func fromBucket(bucket relation) relation {
	return relation{"the generated Secret of a bucket " + bucket.text, func(r Request, _ Kind, g *Graph) bool {
		name, ok := strings.CutPrefix(r.Name, generatedBucketPrefix)
		bucketRequest := r
		bucketRequest.Namespace, bucketRequest.Name = "", name
		return ok && r.Namespace == corev1beta1.GardenNamespace && bucket.holds(bucketRequest, BackupBucket, g)
	}}
}

const generatedBucketPrefix = "generated-bucket-"

// selectedBy matches lists and watches that select the Seed by one of the fields.
func selectedBy(fields ...string) relation {
	return relation{"selected by " + strings.Join(fields, " or ") + " of the seed",
		func(r Request, _ Kind, _ *Graph) bool {
			return slices.ContainsFunc(fields, func(field string) bool { return r.Fields[field] == r.Seed })
		}}
}

// published matches objects named <shoot>.<suffix>, which the gardenlet creates for users. Without suffixes, all match.
func published(suffixes ...string) relation {
	text := "<shoot>." + strings.Join(suffixes, ", <shoot>.") + " of a Shoot on the seed"
	if suffixes == nil {
		text = "<shoot>.* of a Shoot on the seed"
	}
	return relation{text, func(r Request, _ Kind, g *Graph) bool {
		shoot, suffix, ok := strings.Cut(r.Name, ".")
		return ok && (suffixes == nil || slices.Contains(suffixes, suffix)) &&
			g.Belongs(Ref{Shoot, r.Namespace, shoot}, r.Seed)
	}}
}

// called matches objects by namespace and name that every Seed may read.
func called(keys ...string) relation {
	return relation{strings.Join(keys, " or "), func(r Request, _ Kind, _ *Graph) bool {
		return slices.Contains(keys, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"))
	}}
}

func inNamespaces(namespaces ...string) relation {
	return relation{"in namespace " + strings.Join(namespaces, " or "), func(r Request, _ Kind, _ *Graph) bool {
		return slices.Contains(namespaces, r.Namespace)
	}}
}

// table lists the permissions of gardenlets and of extensions in Seeds. Resources that are not listed are left to other
// authorizers; requests for listed resources that no grant allows are denied.
var table = []rule{
	{corev1beta1.GroupName, "shoots", Shoot, []grant{
		{verbs: read, where: own, subresources: withStatus, extensions: true},
		{verbs: collection, where: selectedBy("spec.seedName", "status.seedName"), extensions: true},
		{verbs: collection, where: marked, extensions: true},
		{verbs: change, where: own, subresources: withStatus},
	}},
	{corev1beta1.GroupName, "seeds", Seed, []grant{
		{verbs: change, where: itself, subresources: withStatus},
		{verbs: create, where: judged},
		{verbs: read, where: itself, extensions: true},
		{verbs: read, where: needed},
		{verbs: remove, where: ofManagedSeedOn},
		{verbs: collection, where: selectedBy("metadata.name"), extensions: true},
		{verbs: collection, where: marked, extensions: true},
	}},
	{corev1beta1.GroupName, "shootstates", "ShootState", []grant{
		{verbs: read, where: namedAsShoot, extensions: true}, // Actuators for Workers restore machines from it.
		{verbs: []string{"create", "patch"}, where: namedAsShoot},
		{verbs: create, where: alongsideOwn},
	}},
	{corev1beta1.GroupName, "internalsecrets", InternalSecret, []grant{
		{verbs: publish, where: published()},
		{verbs: create, where: alongsideOwn},
		{verbs: read, where: needed},
	}},
	{corev1beta1.GroupName, "backupbuckets", BackupBucket, []grant{
		{verbs: read, where: needed, subresources: withStatus, extensions: true},
		{verbs: read, where: uidOfSeed},
		{verbs: collection, where: selectedBy("spec.seedName"), extensions: true},
		{verbs: collection, where: marked, extensions: true},
		{verbs: create, where: judged},
		{verbs: change, where: own, subresources: withStatus},
		{verbs: remove, where: own},
		{verbs: change, where: uidOfSeed, subresources: withStatus},
	}},
	{corev1beta1.GroupName, "backupentries", BackupEntry, []grant{
		{verbs: read, where: own, subresources: withStatus, extensions: true},
		{verbs: read, where: uidOfShoot},
		{verbs: collection, where: selectedBy("spec.seedName", "status.seedName"), extensions: true},
		{verbs: collection, where: marked, extensions: true},
		{verbs: create, where: alongsideOwn},
		{verbs: change, where: own, subresources: withStatus},
		{verbs: remove, where: own},
		{verbs: change, where: uidOfShoot, subresources: withStatus},
	}},
	{corev1beta1.GroupName, "controllerinstallations", ControllerInstallation, []grant{
		{verbs: change, where: own, subresources: withStatus},
		{verbs: read, where: own, extensions: true},
		{verbs: collection, where: selectedBy("spec.seedRef.name"), extensions: true},
	}},
	{corev1beta1.GroupName, "controllerdeployments", ControllerDeployment, []grant{
		{verbs: read, where: needed, extensions: true},
		{verbs: collection, where: anything},
	}},
	{corev1beta1.GroupName, "controllerregistrations", "ControllerRegistration",
		[]grant{{verbs: reads, where: anything, extensions: true}}},
	{corev1beta1.GroupName, "cloudprofiles", "CloudProfile", []grant{{verbs: reads, where: anything, extensions: true}}},
	{corev1beta1.GroupName, "exposureclasses", "ExposureClass",
		[]grant{{verbs: reads, where: anything, extensions: true}}},
	{corev1beta1.GroupName, "namespacedcloudprofiles", NamespacedCloudProfile,
		[]grant{{verbs: read, where: needed, extensions: true}}},
	{corev1beta1.GroupName, "projects", Project, []grant{
		{verbs: read, where: needed, extensions: true},
		{verbs: collection, where: ofOwnProject, extensions: true},
	}},
	{corev1beta1.GroupName, "secretbindings", SecretBinding, []grant{{verbs: read, where: needed, extensions: true}}},
	{corev1beta1.GroupName, "quotas", "Quota", nil},
	{securityv1alpha1.GroupName, "credentialsbindings", CredentialsBinding,
		[]grant{{verbs: read, where: needed, extensions: true}}},
	{securityv1alpha1.GroupName, "workloadidentities", WorkloadIdentity, []grant{
		{verbs: read, where: needed},
		{verbs: create, where: needed, subresources: []string{"token"}},
	}},
	{seedmanagementv1alpha1.GroupName, "managedseeds", ManagedSeed, []grant{
		{verbs: read, where: needed},
		{verbs: change, where: needed, subresources: withStatus},
		{verbs: collection, where: marked},
	}},
	{seedmanagementv1alpha1.GroupName, "gardenlets", Gardenlet, []grant{
		{verbs: read, where: gardenletOfSeed},
		{verbs: change, where: gardenletOfSeed, subresources: []string{"status"}},
		{verbs: collection, where: selectedBy("metadata.name")},
	}},
	{seedmanagementv1alpha1.GroupName, "managedseedsets", "ManagedSeedSet", nil},
	{operationsv1alpha1.GroupName, "bastions", Bastion, []grant{
		{verbs: []string{"get"}, where: own, extensions: true},
		{verbs: []string{"patch"}, where: own, subresources: withStatus},
		{verbs: collection, where: selectedBy("spec.seedName"), extensions: true},
	}},

	// Kubernetes' own kinds. Our admission does not see them, so objects must be created by requests that name them
	// (apply).
	{"", "secrets", Secret, []grant{
		{verbs: read, where: needed},
		{verbs: publish, where: published(corev1beta1.ShootSuffixSSHKeypair, corev1beta1.ShootSuffixOldSSHKeypair,
			corev1beta1.ShootSuffixMonitoring, corev1beta1.ShootSuffixCACluster)},
		{verbs: []string{"delete"}, where: published(corev1beta1.ShootSuffixSSHKeypair,
			corev1beta1.ShootSuffixOldSSHKeypair)},
		{verbs: publish, where: issuerKey},
		{verbs: read, where: fromBucket(needed)},
		{verbs: readWrite, where: fromBucket(own)},
	}},
	{"", "configmaps", ConfigMap, []grant{
		{verbs: read, where: needed, extensions: true},
		{verbs: read, where: called("kube-system/"+corev1beta1.ClusterIdentityName,
			corev1beta1.PublicNamespace+"/gardener-info"), extensions: true},
		{verbs: publish, where: published(corev1beta1.ShootSuffixCACluster, corev1beta1.ShootSuffixCAKubelet)},
	}},
	{"", "serviceaccounts", "ServiceAccount", []grant{
		{verbs: []string{"create", "patch", "delete"}, where: extensionAccount},
		{verbs: create, where: extensionAccount, subresources: []string{"token"}},
		{verbs: []string{"list"}, where: inOwnNamespace},
	}},
	{"", "namespaces", Namespace, []grant{
		{verbs: read, where: needed, extensions: true},
		{verbs: read, where: relation{"the seed's namespace",
			func(r Request, _ Kind, _ *Graph) bool { return r.Name == r.ownNamespace() }}, extensions: true},
	}},
	{"", "events", "Event", []grant{
		{verbs: []string{"create", "patch", "update"}, where: inOwnNamespace, extensions: true},
	}},
	{"events.k8s.io", "events", "Event", []grant{ // Events of cluster-scoped objects are in namespace default.
		{verbs: report, where: alongsideOwn},
		{verbs: report, where: inNamespaces("default", corev1beta1.GardenNamespace)},
		{verbs: []string{"create", "patch", "update"}, where: inOwnNamespace, extensions: true},
	}},
	{"coordination.k8s.io", "leases", "Lease", []grant{
		{verbs: []string{"get", "create", "update", "patch"}, where: ownLease},
		{verbs: []string{"create", "update", "patch"}, where: controlPlaneLease},
		{verbs: []string{"create", "patch"}, where: leftLease},
		{verbs: read, where: anyControlPlaneLease},
		{verbs: everything, where: inOwnNamespace, extensions: true},
	}},
	{"certificates.k8s.io", "certificatesigningrequests", CertificateSigningRequest, []grant{
		{verbs: create, where: anything}, // Has no effect until it is approved.
		{verbs: read, where: own},
	}},
}

// ref returns the object of a request. A namespace is requested in itself.
func (r Request) ref(kind Kind) Ref {
	if kind == Namespace {
		return Ref{kind, "", r.Name}
	}
	return Ref{kind, r.Namespace, r.Name}
}

// projectIs reports whether a namespace belongs to a project.
func (g *Graph) projectIs(name, namespace string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	project, ok := g.vertices[Ref{Project, "", name}]
	return ok && slices.Contains(project.node.With, Ref{Namespace, "", namespace})
}

// cutLast cuts s around the last separator.
func cutLast(s, separator string) (before, after string) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return "", s
	}
	return s[:i], s[i+len(separator):]
}
