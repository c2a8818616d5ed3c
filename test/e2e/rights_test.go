//go:build landscape

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// right is what a rule allows: a verb on a resource, which may be a subresource.
type right struct{ verb, group, resource string }

func (r right) String() string {
	return strings.TrimSuffix(r.verb+" "+r.resource+"."+r.group, ".")
}

// keptUnused are rights of gardenlets that stories need not use, with the reason for keeping them.
var keptUnused = map[right]string{
	{"bind", "rbac.authorization.k8s.io",
		"clusterroles"}: "the API server checks it when a role is bound, and the audit log does not contain these checks",
	{"patch", "events.k8s.io", "events"}: "an event that repeats is patched, after minutes",

	{"delete", "rbac.authorization.k8s.io", "clusterroles"}:        seedRemoval,
	{"delete", "rbac.authorization.k8s.io", "clusterrolebindings"}: seedRemoval,
	{"delete", "core.gardener.cloud", "backupbuckets"}:             seedRemoval,
	{"delete", "", "secrets"}:                                      seedRemoval,

	{"delete", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"}:     seedRemoval,
	{"delete", "admissionregistration.k8s.io", "validatingadmissionpolicies"}:       seedRemoval,
	{"delete", "admissionregistration.k8s.io", "validatingadmissionpolicybindings"}: seedRemoval,
}

const seedRemoval = "a gardenlet removes the objects that it has created when its Seed is deleted, which no " +
	"story does with the landscape's own Seeds"

// notDriven are resources whose rights are granted before gardenlets use them.
var notDriven = []string{"workloadidentities"}

// mayStayUnused says whether a right needs no story that uses it.
func (r right) mayStayUnused() bool {
	resource, _, _ := strings.Cut(r.resource, "/")
	return keptUnused[r] != "" || slices.Contains(notDriven, resource)
}

// usage maps each right to an example of its users.
type usage map[right]string

// observed is what the audit logs of the landscape show about gardenlets. All stories together fill it: none of them
// makes gardenlets use all their rights.
var observed = struct {
	sync.Mutex // Stories run concurrently.
	// inSeeds and inGarden are requests that were allowed.
	inSeeds, inGarden usage
	// given are the rights in roles that gardenlets have created. They cannot grant rights that they do not have.
	given usage
	// refused are requests to seeds that were forbidden. In the garden some are expected: a gardenlet's rights to a Shoot
	// end with the Shoot.
	refused usage
	// role has the rights of gardenlets in seeds.
	role []right
}{inSeeds: usage{}, inGarden: usage{}, given: usage{}, refused: usage{}}

// observeRights adds the present audit logs of clusters, and their present roles.
func observeRights(ctx context.Context, clusters []string) error {
	observed.Lock()
	defer observed.Unlock()
	for _, cluster := range clusters {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfigOf(cluster))
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		if err := observeAuditLog(ctx, client); err != nil {
			return fmt.Errorf("audit log of %s: %w", cluster, err)
		}
		if err := observeRoles(ctx, client); err != nil {
			return fmt.Errorf("roles of %s: %w", cluster, err)
		}
	}
	return nil
}

func observeRoles(ctx context.Context, client kubernetes.Interface) error {
	roles, err := client.RbacV1().Roles("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	clusterRoles, err := client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	all := roles.Items
	for _, role := range clusterRoles.Items {
		all = append(all, rbacv1.Role{ObjectMeta: role.ObjectMeta, Rules: role.Rules})
	}
	for _, role := range all {
		if role.Name == "gardener.cloud:system:gardenlet" {
			observed.role = nil
			for _, rule := range role.Rules {
				observed.role = append(observed.role, rightsOf(rule)...)
			}
		}
		if len(role.ManagedFields) == 0 || !strings.HasPrefix(role.ManagedFields[0].Manager, "gardenlet") {
			continue
		}
		for _, rule := range role.Rules {
			for _, r := range rightsOf(rule) {
				observed.given[r] = strings.TrimPrefix(role.Namespace+"/"+role.Name, "/")
			}
		}
	}
	return nil
}

// auditLogName in the folder of the node's logs. Parts that have been rotated have their time in the name.
var auditLogName = regexp.MustCompile(`href="(audit[^"]*\.log)"`)

// observeAuditLog reads the log of a cluster's API server, with the parts that have been rotated.
func observeAuditLog(ctx context.Context, client kubernetes.Interface) error {
	servers, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx,
		metav1.ListOptions{LabelSelector: "component=kube-apiserver"})
	if err != nil {
		return err
	}
	for _, server := range servers.Items {
		folder := "/api/v1/nodes/" + server.Spec.NodeName + "/proxy/logs/kubernetes/"
		index, err := client.CoreV1().RESTClient().Get().AbsPath(folder).DoRaw(ctx)
		if err != nil {
			return err
		}
		for _, link := range auditLogName.FindAllStringSubmatch(string(index), -1) {
			log, err := client.CoreV1().RESTClient().Get().AbsPath(folder + link[1]).DoRaw(ctx)
			if err != nil {
				return err
			}
			for line := range bytes.Lines(log) {
				if !bytes.HasSuffix(line, []byte("\n")) {
					break // It is being written.
				}
				if err := observeRequest(line); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// eventStart begins each line of an audit log. Inside of one its quotes are escaped.
const eventStart = `{"kind":"Event",`

// observeRequest adds one line of an audit log. Requests by kubectl are left out: stories send them with the
// credentials of a gardenlet.
func observeRequest(line []byte) error {
	var event struct {
		RequestURI, Verb, UserAgent string
		User                        struct{ Username string }
		ObjectRef                   struct{ Resource, Subresource, APIGroup, Namespace, Name string }
		ResponseStatus              struct{ Code int }
	}
	if start := bytes.LastIndex(line, []byte(eventStart)); start > 0 {
		line = line[start:] // The server was killed while it wrote the text before.
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return fmt.Errorf("%w in line %s", err, line)
	}
	if strings.HasPrefix(event.UserAgent, "kubectl/") {
		return nil
	}
	r := right{event.Verb, event.ObjectRef.APIGroup, event.ObjectRef.Resource}
	if event.ObjectRef.Subresource != "" {
		r.resource += "/" + event.ObjectRef.Subresource
	}
	if r.resource == "" {
		r.resource, _, _ = strings.Cut(event.RequestURI, "?")
	}
	created := r
	if event.Verb == "patch" && event.ResponseStatus.Code == http.StatusCreated { // An apply, which requires both.
		created.verb = "create"
	}
	example := event.ObjectRef.Namespace + "/" + event.ObjectRef.Name
	switch {
	case event.User.Username != "system:serviceaccount:garden:gardenlet":
		observed.inGarden[r], observed.inGarden[created] = example, example
	case event.ResponseStatus.Code == http.StatusForbidden:
		observed.refused[r] = event.RequestURI
	default:
		observed.inSeeds[r], observed.inSeeds[created] = example, example
	}
	return nil
}

// rightsOf returns the rights in a rule of a role. Wildcards are not expanded.
func rightsOf(rule rbacv1.PolicyRule) []right {
	var all []right
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			all = append(all, right{verb, "", url})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				all = append(all, right{verb, group, resource})
			}
		}
	}
	return all
}

// rightsAreObserved is a step of stories, before their objects and logs are deleted.
func rightsAreObserved(t *testing.T, clusters []string) {
	t.Helper()
	if err := observeRights(context.WithoutCancel(t.Context()), clusters); err != nil {
		t.Error(err)
	}
}

// compareRights compares the rights of gardenlets with their requests in all stories: it returns the rights that they
// lacked, and those that they neither used nor granted to others. A request that was refused although they have the
// right went to a server that had not read the roles yet.
func compareRights() (lacking, unused []string, err error) {
	observed.Lock()
	defer observed.Unlock()
	for r, example := range observed.refused {
		if slices.ContainsFunc(observed.role, usage{r: example}.has) {
			continue
		}
		lacking = append(lacking, fmt.Sprintf("%s: %s", r, example))
	}
	for _, r := range observed.role {
		if !r.mayStayUnused() && !observed.inSeeds.needs(r) && !observed.given.has(r) {
			unused = append(unused, "in seeds: "+r.String())
		}
	}
	inGarden, err := rightsInGarden()
	if err != nil {
		return nil, nil, err
	}
	for _, r := range inGarden {
		if !r.mayStayUnused() && !observed.inGarden.needs(r) {
			unused = append(unused, "in the garden: "+r.String())
		}
	}
	slices.Sort(lacking)
	slices.Sort(unused)
	return lacking, slices.Compact(unused), nil
}

// has reports whether the right was used. All resources of a group count as used if one of them was.
func (u usage) has(r right) bool {
	for used := range u {
		if used.verb == r.verb && used.group == r.group && (used.resource == r.resource || r.resource == "*") {
			return true
		}
	}
	return false
}

// needs reports whether the right was used or may have to be: a client that watches lists if the server cannot send
// what is there with the watch.
func (u usage) needs(r right) bool {
	return u.has(r) || r.verb == "list" && u.has(right{"watch", r.group, r.resource})
}

// rightsInGarden are the rights of gardenlets in the table of the page about the seed authorizer, which is compared
// with the code. Rights that extensions have, too, need not be used by gardenlets.
func rightsInGarden() ([]right, error) {
	page, err := os.ReadFile(filepath.Join(repository, "docs/controllers/seed-authorizer.md"))
	if err != nil {
		return nil, err
	}
	var all []right
	_, table, _ := strings.Cut(string(page), "<!-- begin table -->")
	table, _, _ = strings.Cut(table, "<!-- end table -->")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if len(cells) < 5 || cells[2] == "none" || cells[2] == "verbs" || strings.HasPrefix(cells[4], "too") {
			continue
		}
		group := strings.TrimPrefix(strings.TrimPrefix(cells[0], "| "), "(core)")
		for resource := range strings.SplitSeq(cells[1], ", ") {
			for verb := range strings.SplitSeq(cells[2], ", ") {
				all = append(all, right{verb, group, resource})
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the page about the seed authorizer has no table")
	}
	return all, nil
}

// reportRights prints the differences between the rights of gardenlets and their requests in all stories, and returns
// the exit code: they must have the rights that they use, and use the rights that they have.
func reportRights() int {
	lacking, unused, err := compareRights()
	if err != nil {
		lacking = append(lacking, err.Error())
	}
	for _, r := range unused {
		fmt.Fprintln(os.Stderr, "gardenlets do not use a right that they have,", r)
	}
	for _, r := range lacking {
		fmt.Fprintln(os.Stderr, "gardenlets lack a right:", r)
	}
	return min(len(lacking)+len(unused), 1)
}
