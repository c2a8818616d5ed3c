package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/component/kubecontrollermanager"
	"hortus.dev/hortus/internal/flow"
	"hortus.dev/hortus/internal/kube"
)

// ServiceAccountTokens replaces the tokens in Secrets that ServiceAccounts of the Shoot list, while the key that signs
// them is being rotated. The kube-controller-manager signs them, so it must have the new key. A Shoot whose API server
// sleeps is skipped; its tokens are replaced when it has woken up, at the latest before the rotation can be completed.
var ServiceAccountTokens = &flow.Step[*Scope]{
	Name:    "service-account-tokens",
	After:   []*flow.Step[*Scope]{KubeControllerManager, Connection},
	SkipIf:  when(asleep, withoutTokenRotation),
	Ensure:  use4(ensureServiceAccountTokens),
	Recheck: recheck,
	Limit:   30 * time.Minute, // For 40,000 accounts, at the request rate to a Shoot's API server.
}

const (
	// labelKeyName on a ServiceAccount names the key for which it has got a new token, by the Secret of the key.
	labelKeyName = "credentials.gardener.cloud/key-name"
	// annotationTokens on the Deployment of the kube-controller-manager says that all ServiceAccounts have been changed,
	// for which key, and in which operation, so that the other passes of the operation need not read them.
	annotationTokens = "hortus.dev/service-account-tokens"
)

func withoutTokenRotation(s *Values) string {
	if r := serviceAccountKeyRotation(s); r != nil {
		switch r.Phase {
		case corev1beta1.RotationPreparing, corev1beta1.RotationPreparingWithoutWorkersRollout,
			corev1beta1.RotationWaitingForWorkersRollout, corev1beta1.RotationPrepared, corev1beta1.RotationCompleting:
			return ""
		}
	}
	return "no rotation"
}

func ensureServiceAccountTokens(
	ctx context.Context, s *Values, seed *SeedNamespace, secrets Secrets, cluster *ShootCluster,
) (flow.Outcome, error) {
	key, err := secrets.Get(nameServiceAccountKey)
	if err != nil {
		return flow.Outcome{}, err
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: kubecontrollermanager.Name, Namespace: s.Namespace}}
	if _, err := kube.Exists(ctx, seed, d); err != nil {
		return flow.Outcome{}, err
	}
	rotation := serviceAccountKeyRotation(s)
	completing := rotation.Phase == corev1beta1.RotationCompleting
	proof := tokenProof(completing, key.Name, s.Started)
	if d.Annotations[annotationTokens] == proof {
		return flow.Done(), nil
	}
	if pod, err := signsWithAnotherKey(ctx, seed, key.Name); err != nil || pod != "" {
		return waitingOr(waitPod, fmt.Sprintf("Pod %s with the previous key of service accounts is still running", pod), err)
	}
	shoot, err := cluster.client()
	if err != nil {
		return flow.Outcome{}, err
	}
	pass := &accountPass{shoot: shoot}
	if completing {
		err = pass.retire(ctx, key.Name, rotation.LastInitiationFinishedTime)
	} else {
		err = pass.replace(ctx, key.Name, rotation.LastInitiationFinishedTime)
	}
	if err != nil {
		return flow.Outcome{}, err
	}
	if outcome := pass.outcome(); !outcome.IsDone() {
		return outcome, nil
	}
	before := d.DeepCopy()
	metav1.SetMetaDataAnnotation(&d.ObjectMeta, annotationTokens, proof)
	if err := seed.Patch(ctx, d, client.MergeFrom(before)); err != nil {
		return flow.Outcome{}, fmt.Errorf("record that the tokens of service accounts are replaced: %w", err)
	}
	return flow.Done(), nil
}

// tokenProof is the value of the annotation that says that nothing is left to do in an operation.
func tokenProof(completing bool, key string, started time.Time) string {
	done := "replaced"
	if completing {
		done = "retired"
	}
	return done + "/" + key + "@" + strconv.FormatInt(started.Unix(), 10)
}

// signsWithAnotherKey names a pod of the kube-controller-manager that has another key than the given one, or "". Pods
// that are being deleted count as long as they are there: one of them may still be the leader.
func signsWithAnotherKey(ctx context.Context, seed *SeedNamespace, key string) (string, error) {
	// A pod that the cache does not contain yet could sign.
	pods, err := seed.podsOf(ctx, kubecontrollermanager.Name, &client.ListOptions{Raw: &metav1.ListOptions{}})
	if err != nil {
		return "", err
	}
	for i := range pods {
		p := &pods[i]
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		mounts := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == key
		})
		if !ended && !mounts {
			return p.Name, nil
		}
	}
	return "", nil
}

// accountChange is what one pass does with a ServiceAccount: it creates a token, deletes others, and then writes the
// account.
type accountChange struct {
	account *corev1.ServiceAccount // As it was read.
	// create is the name of a new token Secret; "" creates none.
	create string
	delete []tokenSecret
	// secrets and key are the account's list and the value of its label from then on; "" removes the label.
	secrets []corev1.ObjectReference
	key     string
}

// tokenSecret is a Secret with a token of the ServiceAccount of its namespace that is named account.
type tokenSecret struct {
	name, account string
	uid           types.UID
	created       metav1.Time
}

// replaceToken gives an account that lists Secrets a new token, as the first of them. The others remain valid until the
// rotation is completed. prepared is the time since when all tokens are signed with the new key, nil until then:
// accounts created later need no other token.
func replaceToken(account *corev1.ServiceAccount, key string, prepared *metav1.Time) (accountChange, bool) {
	switch {
	case len(account.Secrets) == 0, account.Labels[labelKeyName] == key, account.DeletionTimestamp != nil:
		return accountChange{}, false
	case prepared != nil && !account.CreationTimestamp.Before(prepared):
		return accountChange{}, false
	}
	name := replacementName(account.Name, key)
	rest := slices.DeleteFunc(slices.Clone(account.Secrets), func(r corev1.ObjectReference) bool { return r.Name == name })
	return accountChange{
		account: account, create: name, key: key, secrets: append([]corev1.ObjectReference{{Name: name}}, rest...),
	}, true
}

// retireTokens deletes the tokens that an account lists and that were created before the given time, because the key
// that has signed them is not accepted any more. What else it lists remains: its new token, and Secrets for other
// purposes. A nil time deletes nothing.
func retireTokens(
	account *corev1.ServiceAccount, key string, tokens map[types.NamespacedName]tokenSecret, before *metav1.Time,
) (accountChange, bool) {
	c, replacement := accountChange{account: account}, replacementName(account.Name, key)
	for _, ref := range account.Secrets {
		token, isToken := tokens[types.NamespacedName{Namespace: account.Namespace, Name: ref.Name}]
		if isToken && token.account == account.Name && ref.Name != replacement && before != nil &&
			token.created.Before(before) {
			c.delete = append(c.delete, token)
		} else {
			c.secrets = append(c.secrets, ref)
		}
	}
	_, labelled := account.Labels[labelKeyName]
	return c, labelled || len(c.delete) > 0
}

// replacementName is the name of the token Secret that an account gets for a key, <account>-token-<6 hexadecimal
// digits>. A longer account name than fits is cut off; the digits then depend on it as well.
func replacementName(account, key string) string {
	const infix, digits = "-token-", 6
	const longest = validation.DNS1123SubdomainMaxLength - len(infix) - digits
	if len(account) > longest {
		key, account = key+"/"+account, strings.TrimRight(account[:longest], "-.")
	}
	sum := sha256.Sum256([]byte(key))
	return account + infix + hex.EncodeToString(sum[:])[:digits]
}
