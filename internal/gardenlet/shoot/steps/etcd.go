package steps

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component"
	"hortus.dev/hortus/internal/component/etcd"
	"hortus.dev/hortus/internal/component/kubeapiserver"
	"hortus.dev/hortus/internal/etcdbackup"
	"hortus.dev/hortus/internal/etcdmember/configuration"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
	"hortus.dev/hortus/internal/maintenance"
	"hortus.dev/hortus/internal/secretsmanager"
)

// etcdStorage is the size of the volume.
const etcdStorage = "25Gi"

// Etcd holds the state of the Shoot.
var Etcd = &flow.Step[*Scope]{
	Name:    "etcd",
	After:   []*flow.Step[*Scope]{Credentials, BackupEntry},
	Ensure:  use3(ensureEtcd),
	Remove:  use1(removeEtcd),
	Recheck: recheckPods,
}

// EtcdActivated starts an etcd that was prepared for a move. Only the owner of the control plane may do that.
var EtcdActivated = &flow.Step[*Scope]{
	Name:    "etcd-activated",
	After:   []*flow.Step[*Scope]{Etcd},
	SkipIf:  when(asleep),
	Ensure:  use4(ensureEtcdActivated),
	Recheck: recheckPods,
}

// EtcdReady waits for etcd. It is a separate step, so that the API server's pods, which retry, can be created
// meanwhile.
var EtcdReady = &flow.Step[*Scope]{
	Name:   "etcd-ready",
	After:  []*flow.Step[*Scope]{Etcd, EtcdActivated},
	SkipIf: when(asleep, skipReadiness),
	Ensure: use4(ensureEtcdReady),
	Limit:  5 * time.Minute,
}

func ensureEtcd(ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets) (flow.Outcome, error) {
	backup, err := etcdBackup(ctx, s, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	certificates, err := secrets.etcdCertificates()
	if err != nil {
		return flow.Outcome{}, err
	}
	replicas, err := etcdReplicas(ctx, s, seed)
	if err != nil {
		return flow.Outcome{}, err
	}
	config := etcdConfig(s)
	service, set := etcd.Render(etcd.Values{
		Namespace: s.Namespace, Image: s.Images.Hortus, Replicas: replicas,
		Spread:      etcdSpread(s.Shoot),
		StorageSize: etcdStorage, Backup: backup,
	})
	if again, err := renewEtcdSet(ctx, seed, set); err != nil || again {
		return waitingOr(waitStatefulSet, "StatefulSet of etcd is being recreated; its pods keep running", err)
	}
	// The mounted objects come first. Running pods get their changes, too, as soon as the kubelet reads them.
	if err := seed.apply(ctx, certificates, config, service, etcd.Peers(s.Namespace), etcd.DisruptionBudget(s.Namespace),
		set); err != nil {
		return flow.Outcome{}, err
	}
	pods, err := seed.podsOf(ctx, etcd.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	return flow.Done(), updateEtcds(ctx, seed, set, etcd.Checksum(certificates, config), pods)
}

// etcdReplicas is the number of members. Only [Hibernate] stops them, after it has saved what they store: once the API
// server is being stopped, they stay as they are.
func etcdReplicas(ctx context.Context, s *Values, seed *SeedNamespace) (int32, error) {
	if !s.Asleep() {
		return s.Replicas() * int32(s.etcdMembers()), nil
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: etcd.Name, Namespace: s.Namespace}}
	found, err := kube.Exists(ctx, seed, set)
	if err != nil || !found {
		return 0, err
	}
	return ptr.Deref(set.Spec.Replicas, 1), nil
}

// renewEtcdSet deletes a StatefulSet of an earlier release that cannot be changed to the wanted one. Its pods run on,
// and the next StatefulSet adopts them. The wanted one gets the volumes of one that stays: they cannot be changed
// either, and a webhook may have chosen their class when the StatefulSet was created.
func renewEtcdSet(ctx context.Context, seed *SeedNamespace, wanted *appsv1.StatefulSet) (bool, error) {
	is := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: wanted.Name, Namespace: wanted.Namespace}}
	found, err := kube.Exists(ctx, seed, is)
	if err != nil || !found {
		return false, err
	}
	if is.Spec.ServiceName == wanted.Spec.ServiceName && is.Spec.PodManagementPolicy == wanted.Spec.PodManagementPolicy {
		wanted.Spec.VolumeClaimTemplates = is.Spec.VolumeClaimTemplates
		return false, nil
	}
	if !is.DeletionTimestamp.IsZero() {
		return true, nil
	}
	err = seed.Delete(ctx, is, client.PropagationPolicy(metav1.DeletePropagationOrphan),
		client.Preconditions{UID: &is.UID})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("delete StatefulSet %q, which cannot be changed, without its pods: %w", is.Name, err)
	}
	log.FromContext(ctx).Info("Deleting StatefulSet, but not its pods: it cannot be changed, and is created again",
		"StatefulSet", klog.KObj(is))
	return true, nil
}

// etcdSpread is the label of nodes by which members are spread.
func etcdSpread(shoot *corev1beta1.Shoot) string {
	switch cp := shoot.Spec.ControlPlane; {
	case cp == nil || cp.HighAvailability == nil:
		return ""
	case cp.HighAvailability.FailureTolerance.Type == corev1beta1.FailureToleranceTypeZone:
		return corev1.LabelTopologyZone
	}
	return corev1.LabelHostname
}

// updateEtcds makes the pods what they should be, one at a time.
func updateEtcds(
	ctx context.Context, seed *SeedNamespace, set *appsv1.StatefulSet, checksum string, pods []corev1.Pod,
) error {
	changes := etcd.Next(&set.Spec.Template, checksum, pods)
	for i := range pods {
		if err := updateEtcd(ctx, seed, &pods[i], changes[pods[i].Name]); err != nil {
			return err
		}
	}
	return nil
}

// etcdCertificates is the Secret that the pods of etcd mount, with the certificates that are current. The process of a
// member calls itself and the other members with the server's certificate: when a rotation begins, it is still of the
// old CA, so members trust it whose bundle has the old one alone, and when the rotation ends, it is of the new CA,
// which all bundles have.
func (secrets Secrets) etcdCertificates() (*corev1.Secret, error) {
	server, err := secrets.Get(nameEtcdServer)
	if err != nil {
		return nil, err
	}
	ca, err := secrets.Bundle(nameCAEtcd)
	if err != nil {
		return nil, err
	}
	peer, err := secrets.Get(nameEtcdPeer)
	if err != nil {
		return nil, err
	}
	peerCA, err := secrets.Bundle(nameCAEtcdPeer)
	if err != nil {
		return nil, err
	}
	pair := func(secret *corev1.Secret) etcd.Pair {
		return etcd.Pair{Cert: secret.Data[secretsmanager.DataCert], Key: secret.Data[secretsmanager.DataKey]}
	}
	return etcd.Certificates{
		Bundle: ca.Data[secretsmanager.DataBundle], Server: pair(server), Client: pair(server),
		PeerBundle: peerCA.Data[secretsmanager.DataBundle], Peer: pair(peer),
	}.Secret(secrets.namespace), nil
}

func etcdConfig(s *Values) *corev1.ConfigMap {
	return etcd.Config(s.Namespace, fullSchedule(maintenance.WindowOf(s.Shoot), s.Namespace), s.etcdMembers())
}

// updateEtcd makes a pod what it should be.
func updateEtcd(ctx context.Context, seed *SeedNamespace, pod *corev1.Pod, c etcd.Change) error {
	switch {
	case c.IsNone():
		return nil
	case c.Replace:
		// The volume is attached to the next pod only after this one has ended.
		if err := seed.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Pod %q, since %s: %w", pod.Name, c.Reason, err)
		}
		if pod.DeletionTimestamp.IsZero() {
			log.FromContext(ctx).Info("Replacing Pod of etcd", "Pod", klog.KObj(pod), "reason", c.Reason)
		}
		return nil
	}
	before := pod.DeepCopy()
	for i := range pod.Spec.Containers {
		if image, ok := c.Images[pod.Spec.Containers[i].Name]; ok {
			pod.Spec.Containers[i].Image = image
		}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, c.Annotations)
	err := seed.Patch(ctx, pod, client.StrategicMergeFrom(before), client.FieldOwner(FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("update Pod %q: %w", pod.Name, err)
	}
	logger := log.FromContext(ctx)
	if _, refreshed := c.Annotations[etcd.AnnotationRefreshed]; refreshed { // Repeated while the kubelet is waited for.
		logger = logger.V(1)
	}
	logger.Info("Updated Pod of etcd in place", "Pod", klog.KObj(pod), "images", c.Images, "annotations", c.Annotations)
	return nil
}

// fullSchedule returns a daily time in a maintenance window for full snapshots, as cron in UTC. It depends on the
// namespace, so that the etcds of a seed do not all read their databases at once.
func fullSchedule(w maintenance.Window, namespace string) string {
	first := int64((w.Begin + time.Minute - 1) / time.Minute)
	last := int64((w.Begin + w.Duration()) / time.Minute)
	h := fnv.New32a()
	h.Write([]byte(namespace))
	// A window without a full minute counts as the minute in which it begins, or the next one.
	at := (first + int64(h.Sum32())%max(last-first+1, 1)) % (24 * 60)
	return fmt.Sprintf("%d %d * * *", at%60, at/60)
}

// etcdBackup says where the backups of etcd go, nil if the seed has none.
func etcdBackup(ctx context.Context, s *Values, seed *SeedNamespace) (*etcd.Backup, error) {
	secret, ok, err := backupSecretFor(ctx, s, seed)
	if err != nil || !ok {
		return nil, err
	}
	backup := &etcd.Backup{
		StoreSecret: secret, Prefix: backupEntryName(s) + "/" + etcd.Name, Holder: s.SeedObject.Name, Epoch: s.Claim.Epoch,
		FenceTime: s.FenceTime,
		Restore:   s.Facts.Restoration.restore(),
	}
	if s.Preparing() {
		backup.Standby = true
		backup.Epoch++ // The epoch of the hand-over.
	}
	return backup, nil
}

// RunningEpoch is the epoch with which etcd runs in a namespace; 0 if there is no etcd, it has no backups, or it is on
// standby.
func RunningEpoch(ctx context.Context, seed client.Reader, namespace string) (int64, error) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: etcd.Name, Namespace: namespace}}
	if found, err := kube.Exists(ctx, seed, set); err != nil || !found {
		return 0, err
	}
	epoch, standby := etcd.Owner(set)
	if standby {
		return 0, nil
	}
	return epoch, nil
}

// BackupAccess returns how to connect to the backup service of an etcd, with the certificates that the etcd itself
// uses. It returns false if the etcd has no backups.
func BackupAccess(ctx context.Context, seed client.Reader, set *appsv1.StatefulSet) (EtcdAccess, bool, error) {
	if !etcd.HasBackups(set) {
		return EtcdAccess{}, false, nil
	}
	certificates := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: etcd.CertificatesName, Namespace: set.Namespace}}
	if _, err := kube.Exists(ctx, seed, certificates); err != nil {
		return EtcdAccess{}, true, err
	}
	return etcdService(certificates, etcd.ServiceURL(set.Namespace)), true, nil
}

// etcdService is how to reach the service of the process that runs an etcd.
func etcdService(certificates *corev1.Secret, url string) EtcdAccess {
	return EtcdAccess{
		Endpoint: url, CAPEM: certificates.Data[configuration.CA],
		CertPEM: certificates.Data[configuration.ClientCert], KeyPEM: certificates.Data[configuration.ClientKey],
	}
}

func ensureEtcdActivated(
	ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets, etcds Etcds,
) (flow.Outcome, error) {
	pods, err := seed.podsOf(ctx, etcd.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	return every(ctx, pods, func(ctx context.Context, pod corev1.Pod) (flow.Outcome, error) {
		if !etcd.StandsBy(&pod) || !pod.DeletionTimestamp.IsZero() {
			return flow.Done(), nil
		}
		return activateEtcd(ctx, s, seed, secrets, etcds, &pod)
	})
}

// activateEtcd ends the standby of the process in a pod, unless that has been done.
func activateEtcd(
	ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets, etcds Etcds, pod *corev1.Pod,
) (flow.Outcome, error) {
	certificates, err := secrets.etcdCertificates()
	if err != nil {
		return flow.Outcome{}, err
	}
	access := etcdService(certificates, etcd.ServiceURL(s.Namespace)) // Only an etcd of one member is prepared.
	status, err := etcds.EtcdStatus(ctx, access)
	switch {
	case err != nil:
		return flow.Waiting(waitEtcd, fmt.Sprintf("The process of etcd in Pod %s does not answer: %v", pod.Name, err)), nil
	case status.Etcd.State != etcdbackup.EtcdStandby:
		return flow.Done(), nil
	}
	if handedOver(s) == "" { // An API server that waits for this etcd must not serve before FormerOwnerFenced.
		if outcome, err := ensureKubeAPIServerStopped(ctx, seed); err != nil || !outcome.IsDone() {
			return outcome, err
		}
	}
	if err := etcds.ActivateEtcd(ctx, access, s.Claim.Epoch, s.SeedObject.Name); err != nil {
		return flow.Outcome{}, fmt.Errorf("start the etcd that was prepared in Pod %q: %w", pod.Name, err)
	}
	log.FromContext(ctx).Info("Started the etcd that was prepared", "Pod", klog.KObj(pod), "epoch", s.Claim.Epoch)
	return flow.Done(), replaceImpatientAPIServers(ctx, seed)
}

// replaceImpatientAPIServers deletes pods whose server has given up waiting for etcd: they would be started again only
// after a while.
func replaceImpatientAPIServers(ctx context.Context, seed *SeedNamespace) error {
	pods, err := seed.podsOf(ctx, kubeapiserver.Name)
	if err != nil {
		return err
	}
	for i := range pods {
		pod := &pods[i]
		if !slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.RestartCount > 0 && c.State.Running == nil
		}) {
			continue
		}
		if err := seed.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("replace Pod %q: %w", pod.Name, err)
		}
		if pod.DeletionTimestamp.IsZero() {
			log.FromContext(ctx).Info("Replacing Pod of the API server, which has given up waiting for etcd",
				"Pod", klog.KObj(pod))
		}
	}
	return nil
}

// refreshPeriod is how long the kubelet may take for new contents of a Secret before its attention is drawn again: it
// may have looked too early.
const refreshPeriod = 10 * time.Second

// ensureEtcdReady waits until every member runs with what it should, not only until the pods are ready.
func ensureEtcdReady(
	ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets, etcds Etcds,
) (flow.Outcome, error) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: etcd.Name, Namespace: s.Namespace}}
	if _, err := kube.Exists(ctx, seed, set); err != nil {
		return flow.Outcome{}, err
	}
	certificates, err := secrets.etcdCertificates()
	if err != nil {
		return flow.Outcome{}, err
	}
	checksum := etcd.Checksum(certificates, etcdConfig(s))
	pods, err := seed.podsOf(ctx, etcd.Name)
	if err != nil {
		return flow.Outcome{}, err
	}
	if want := int(ptr.Deref(set.Spec.Replicas, 1)); len(pods) != want {
		return flow.Waiting(waitStatefulSet, fmt.Sprintf("StatefulSet %s has %d of %d pods", etcd.Name, len(pods), want)), nil
	}
	if err := updateEtcds(ctx, seed, set, checksum, pods); err != nil { // The update of the next pod may be due.
		return flow.Outcome{}, err
	}
	epoch, standby := etcd.Owner(set)
	for i := range pods {
		pod := &pods[i]
		reason := etcd.Unready(&set.Spec.Template, checksum, pod)
		url := etcd.ServiceURL(s.Namespace)
		if len(pods) > 1 { // DNS serves the names of pods a few seconds after their start.
			url = etcd.PodServiceURL(pod)
		}
		var status etcdbackup.Status
		if reason == "" || pod.Status.Phase == corev1.PodRunning { // Otherwise no process can answer.
			status, err = etcds.EtcdStatus(ctx, etcdService(certificates, url))
		}
		switch {
		case standby && err == nil && status.Etcd.State == etcdbackup.EtcdStandby && status.Etcd.Message == "":
			continue // It never becomes readier than that.
		case err == nil && status.Etcd.Epoch > 0 && status.Etcd.Epoch < epoch && status.Etcd.State != etcdbackup.EtcdStandby:
			return flow.Waiting(waitPod, fmt.Sprintf("Pod %s is being replaced: it runs for epoch %d, not %d", pod.Name,
					status.Etcd.Epoch, epoch)),
				updateEtcd(ctx, seed, pod, etcd.Change{Replace: true, Reason: "it runs for an older epoch"})
		case err != nil && reason == "":
			reason = fmt.Sprintf("The process of etcd in Pod %s does not answer: %v", pod.Name, err)
		case err == nil && status.Etcd.Message != "":
			reason = fmt.Sprintf("etcd in Pod %s is %s: %s", pod.Name, status.Etcd.State, status.Etcd.Message)
		case err == nil && reason == "" && status.Etcd.Configuration != checksum:
			reason = fmt.Sprintf("etcd in Pod %s does not run with its new certificates or flags yet", pod.Name)
		}
		if reason != "" {
			return seed.waitForPods(waitEtcd, reason, pods[i:i+1]), refreshEtcd(ctx, seed, pod)
		}
	}
	return flow.Done(), nil
}

// refreshEtcd lets the kubelet look again for new contents of the Secrets that a pod mounts.
func refreshEtcd(ctx context.Context, seed *SeedNamespace, pod *corev1.Pod) error {
	last, err := time.Parse(time.RFC3339, pod.Annotations[etcd.AnnotationRefreshed])
	if err == nil && seed.clock.Since(last) < refreshPeriod || !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	return updateEtcd(ctx, seed, pod, etcd.Change{Annotations: map[string]string{
		etcd.AnnotationRefreshed: seed.clock.Now().UTC().Format(time.RFC3339),
	}})
}

// removeEtcd also deletes the volume, which a StatefulSet leaves behind.
func removeEtcd(ctx context.Context, seed *SeedNamespace) (flow.Outcome, error) {
	meta := metav1.ObjectMeta{Name: etcd.Name, Namespace: seed.namespace}
	gone, err := seed.remove(ctx, &appsv1.StatefulSet{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta},
		etcd.Config(seed.namespace, "", 1), etcd.Certificates{}.Secret(seed.namespace),
		etcd.Peers(seed.namespace), etcd.DisruptionBudget(seed.namespace))
	if err != nil {
		return flow.Outcome{}, err
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := seed.List(ctx, claims, client.InNamespace(seed.namespace),
		client.MatchingLabels(component.Selector(etcd.Name))); err != nil {
		return flow.Outcome{}, fmt.Errorf("list volumes of etcd: %w", err)
	}
	for i := range claims.Items {
		if _, err := seed.remove(ctx, &claims.Items[i]); err != nil {
			return flow.Outcome{}, err
		}
	}
	if !gone || len(claims.Items) > 0 {
		return flow.Waiting(waitEtcd, "etcd and its volume are being deleted"), nil
	}
	return flow.Done(), nil
}
