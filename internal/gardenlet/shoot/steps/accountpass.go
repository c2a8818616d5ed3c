package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/boundedlist"
	"hortus.dev/hortus/internal/flow"
)

const (
	// accountWrites is the number of writes after which a pass ends; the next one continues. At the request rate to a
	// Shoot's API server that takes about four seconds.
	accountWrites = 200
	// parallelAccounts bounds the load on the user's API server.
	parallelAccounts = 10
	// maxRefusals is the number of refused changes after which a pass ends.
	maxRefusals = 50
	// maxRefusalText bounds the reason of a refusal in a message, in bytes: a webhook of the user may have written it.
	maxRefusalText = 300
)

// accountPass changes ServiceAccounts of a Shoot, many at a time. It may stop after any write: the next pass decides
// again by what it reads.
type accountPass struct {
	shoot client.Client

	mu     sync.Mutex
	writes int
	// conflicts is the number of changes for which another client was faster. unfinished: there are more accounts.
	conflicts  int
	unfinished bool
	// refused are the accounts whose change the API server refuses, and refusal is the reason for one of them.
	refused []string
	refusal error
}

// replace gives all accounts that list Secrets a new token.
func (p *accountPass) replace(ctx context.Context, key string, prepared *metav1.Time) error {
	without, err := labels.NewRequirement(labelKeyName, selection.NotEquals, []string{key})
	if err != nil {
		return fmt.Errorf("select ServiceAccounts: %w", err)
	}
	return p.run(ctx, func(a *corev1.ServiceAccount) (accountChange, bool) { return replaceToken(a, key, prepared) },
		client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*without)})
}

// retire deletes all listed tokens that were created before the given time.
func (p *accountPass) retire(ctx context.Context, key string, before *metav1.Time) error {
	tokens, err := listTokens(ctx, p.shoot)
	if err != nil {
		return err
	}
	return p.run(ctx, func(a *corev1.ServiceAccount) (accountChange, bool) {
		return retireTokens(a, key, tokens, before)
	})
}

// listTokens reads which Secrets have tokens, without the tokens.
func listTokens(ctx context.Context, shoot client.Client) (map[types.NamespacedName]tokenSecret, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	tokens := map[types.NamespacedName]tokenSecret{}
	err := boundedlist.Read(ctx, shoot, readLimits, list, func(page *metav1.PartialObjectMetadataList) (bool, error) {
		for i := range page.Items {
			s := &page.Items[i]
			tokens[client.ObjectKeyFromObject(s)] = tokenSecret{
				name: s.Name, account: s.Annotations[corev1.ServiceAccountNameKey], uid: s.UID, created: s.CreationTimestamp,
			}
		}
		return true, nil
	}, client.MatchingFields{"type": string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return nil, fmt.Errorf("list token Secrets of the Shoot: %w", err)
	}
	return tokens, nil
}

// run reads the accounts page by page, and makes the changes of each page in parallel.
func (p *accountPass) run(
	ctx context.Context, decide func(*corev1.ServiceAccount) (accountChange, bool), opts ...client.ListOption,
) error {
	err := boundedlist.Read(ctx, p.shoot, boundedlist.Limits{}, &corev1.ServiceAccountList{},
		func(page *corev1.ServiceAccountList) (bool, error) {
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(parallelAccounts)
			for i := range page.Items {
				c, due := decide(&page.Items[i])
				if !due {
					continue
				}
				if p.full() {
					p.unfinished = true
					break
				}
				group.Go(func() error { return p.note(c, p.change(ctx, c)) })
			}
			return !p.unfinished, group.Wait()
		}, opts...)
	if err != nil {
		return fmt.Errorf("replace tokens of ServiceAccounts: %w", err)
	}
	return nil
}

func (p *accountPass) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes >= accountWrites || len(p.refused) >= maxRefusals
}

func (p *accountPass) wrote() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
}

// errForeignSecret: a Secret of the user has the name of a new token.
var errForeignSecret = errors.New("the name of its new token is in use by another Secret")

// note notes how a change has ended. It returns errors that are not about one account.
func (p *accountPass) note(c accountChange, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil, apierrors.IsNotFound(err):
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // The account is about to be deleted.
	case apierrors.IsConflict(err):
		p.conflicts++
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err),
		errors.Is(err, errForeignSecret):
		p.refused = append(p.refused, c.account.Namespace+"/"+c.account.Name)
		p.refusal = err
	default:
		return fmt.Errorf("ServiceAccount %s: %w", client.ObjectKeyFromObject(c.account), err)
	}
	return nil
}

// change makes one change: what the account lists exists before, and what is deleted is deleted before the account
// forgets it.
func (p *accountPass) change(ctx context.Context, c accountChange) error {
	if c.create != "" {
		if err := p.createToken(ctx, c.account, c.create); err != nil {
			return err
		}
	}
	for _, token := range c.delete {
		p.wrote()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.account.Namespace, Name: token.name}}
		if err := client.IgnoreNotFound(p.shoot.Delete(ctx, secret, client.Preconditions{UID: &token.uid})); err != nil {
			return err
		}
	}
	after := c.account.DeepCopy()
	after.Secrets = c.secrets
	if c.key == "" {
		delete(after.Labels, labelKeyName)
	} else {
		metav1.SetMetaDataLabel(&after.ObjectMeta, labelKeyName, c.key)
	}
	p.wrote()
	// A merge patch replaces the list, which others may have changed.
	return p.shoot.Patch(ctx, after, client.MergeFromWithOptions(c.account, client.MergeFromWithOptimisticLock{}))
}

// createToken creates a Secret for which the kube-controller-manager makes a token.
func (p *accountPass) createToken(ctx context.Context, account *corev1.ServiceAccount, name string) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: account.Namespace, Name: name, Annotations: map[string]string{
				corev1.ServiceAccountNameKey: account.Name, corev1.ServiceAccountUIDKey: string(account.UID),
			},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	p.wrote()
	err := p.shoot.Create(ctx, secret)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := p.shoot.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
		return err
	}
	switch {
	case secret.Type != corev1.SecretTypeServiceAccountToken,
		secret.Annotations[corev1.ServiceAccountNameKey] != account.Name:
		return errForeignSecret
	case secret.DeletionTimestamp != nil, secret.Annotations[corev1.ServiceAccountUIDKey] != string(account.UID):
		// That of an account of the same name that has been deleted; Kubernetes deletes it as well.
		return apierrors.NewConflict(corev1.Resource("secrets"), name, errors.New("it belongs to a deleted ServiceAccount"))
	}
	return nil
}

// outcome is that of the step.
func (p *accountPass) outcome() flow.Outcome {
	switch {
	case len(p.refused) > 0:
		slices.Sort(p.refused)
		reason := p.refusal.Error()
		reason = strings.ToValidUTF8(reason[:min(len(reason), maxRefusalText)], "")
		return flow.WaitingWithCodes(waitToken, fmt.Sprintf("The Shoot refuses new tokens of service accounts: %s: %s",
			leftList(p.refused), reason), string(corev1beta1.ErrorConfigurationProblem))
	case p.unfinished || p.conflicts > 0:
		return flow.Waiting(waitToken, "Tokens of service accounts are being replaced")
	}
	return flow.Done()
}
