package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// userClusters are kube-apiservers that tests use one after the other. Their content is in one etcd.
var userClusters struct {
	sync.Mutex
	dir     string
	etcd    *envtest.Etcd
	client  *clientv3.Client
	started int
	free    []*userCluster
	all     []*userCluster
}

// userCluster is a kube-apiserver, and its content after its start.
type userCluster struct {
	*KubeAPIServer
	prefix  string
	content map[string][]byte
}

// UserCluster returns a kube-apiserver that no other test uses at the same time, with the content that a new one has.
// Nothing but the API server runs there. It takes as long as a start only if all others are in use.
func UserCluster(t testing.TB) *KubeAPIServer {
	t.Helper()
	c, err := takeUserCluster(t.Context())
	if err != nil {
		t.Fatalf("user cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := returnUserCluster(c); err != nil {
			t.Errorf("user cluster: %v", err)
		}
	})
	return c.KubeAPIServer
}

func takeUserCluster(ctx context.Context) (*userCluster, error) {
	u := &userClusters
	u.Lock()
	if last := len(u.free) - 1; last >= 0 {
		c := u.free[last]
		u.free = u.free[:last]
		u.Unlock()
		return c, nil
	}
	defer u.Unlock()
	if u.etcd == nil {
		if err := startStore(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(u.dir, "")
	if err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	u.started++
	c := &userCluster{prefix: fmt.Sprintf("/cluster-%d", u.started)}
	// Many of them run at the same time, with few requests each. Idle, they take less than half of the CPU time without
	// caches and without order of requests.
	flags := map[string]string{
		"etcd-prefix": c.prefix, "watch-cache": "false", "enable-priority-and-fairness": "false", "profiling": "false",
	}
	if c.KubeAPIServer, err = startKubeAPIServer(dir, u.etcd.URL, flags); err != nil {
		return nil, err
	}
	u.all = append(u.all, c)
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	c.content, err = c.stored(ctx)
	return c, err
}

// startStore starts the etcd of all user clusters.
func startStore() error {
	u := &userClusters
	var err error
	if u.dir, err = os.MkdirTemp("", "user-clusters-"); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if u.etcd, err = startEtcd(u.dir); err != nil {
		return err
	}
	u.client, err = clientv3.New(clientv3.Config{Endpoints: []string{u.etcd.URL.String()}, DialTimeout: etcdTimeout})
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	return nil
}

// settle waits for what a kube-apiserver creates after its start.
func (c *userCluster) settle(ctx context.Context) error {
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}},
	} {
		key := client.ObjectKeyFromObject(o)
		err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
			err := c.Client.Get(ctx, key, o)
			return err == nil, client.IgnoreNotFound(err)
		})
		if err != nil {
			return fmt.Errorf("wait for %s: %w", key, err)
		}
	}
	return nil
}

// returnUserCluster restores the content of a cluster, so that another test can use it. One whose API a test has
// changed is stopped: API servers follow such changes in their own time.
func returnUserCluster(c *userCluster) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	reusable, err := c.restore(ctx)
	if err != nil || !reusable {
		return errors.Join(err, c.stop())
	}
	userClusters.Lock()
	defer userClusters.Unlock()
	userClusters.free = append(userClusters.free, c)
	return nil
}

// ownKeys are written by API servers for themselves.
var ownKeys = []string{"/leases/", "/masterleases/", "/peerserverleases/", "/services/endpoints/", "/endpointslices/"}

// apiKeys are objects that change an API.
var apiKeys = []string{"webhookconfigurations/", "customresourcedefinitions/", "apiservices/", "admissionpolic"}

func contains(key string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(key, part) })
}

// restore makes the content of the cluster what it was after its start. It reports whether the API has stayed the same.
func (c *userCluster) restore(ctx context.Context) (bool, error) {
	now, err := c.stored(ctx)
	if err != nil {
		return false, err
	}
	var changes []clientv3.Op
	for _, key := range slices.Sorted(maps.Keys(now)) {
		before, was := c.content[key]
		if was && bytes.Equal(before, now[key]) {
			continue
		}
		if contains(key, apiKeys) {
			return false, nil
		}
		if was {
			changes = append(changes, clientv3.OpPut(key, string(before)))
		} else {
			changes = append(changes, clientv3.OpDelete(key))
		}
	}
	for key, before := range c.content {
		if _, is := now[key]; !is {
			changes = append(changes, clientv3.OpPut(key, string(before)))
		}
	}
	for _, change := range changes {
		if _, err := userClusters.client.Do(ctx, change); err != nil {
			return false, fmt.Errorf("restore content in etcd: %w", err)
		}
	}
	return true, nil
}

// stored returns the content of the cluster, without what API servers write for themselves.
func (c *userCluster) stored(ctx context.Context) (map[string][]byte, error) {
	answer, err := userClusters.client.Get(ctx, c.prefix+"/", clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("read content from etcd: %w", err)
	}
	out := map[string][]byte{}
	for _, kv := range answer.Kvs {
		if key := string(kv.Key); !contains(key, ownKeys) {
			out[key] = kv.Value
		}
	}
	return out, nil
}

// stopUserClusters ends all user clusters of the process.
func stopUserClusters() error {
	u := &userClusters
	u.Lock()
	defer u.Unlock()
	var errs []error
	for _, c := range u.all {
		errs = append(errs, c.stop())
	}
	if u.client != nil {
		errs = append(errs, u.client.Close())
	}
	if u.etcd != nil {
		errs = append(errs, u.etcd.Stop())
	}
	if u.dir != "" {
		errs = append(errs, os.RemoveAll(u.dir))
	}
	return errors.Join(errs...)
}
