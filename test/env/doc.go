// Package env starts the environment for tests of controllers: a real etcd, a real kube-apiserver and, on request, our
// own API server behind it, in the test's process. Everything listens on loopback addresses and ends with the tests.
//
// A package with many tests starts one environment for all of them:
//
//	func TestMain(m *testing.M) { env.Main(m, env.WithGardenAPI(), env.WithCRDs(crds.Extensions()...)) }
//
//	func TestReconcile(t *testing.T) {
//		e := env.Shared(t)
//		project := e.Project(t) // A Project with its namespace, gone after the test.
//		...
//	}
//
// A test that needs an environment of its own calls Start. The programs come from "hortus components build etcd
// kubernetes-1.36.3". HORTUS_TEST_LOGS=1 shows the logs of all three servers.
package env
