// Package component has the common parts of the folders below it: the shape of a control plane workload.
//
// Each folder renders one deployed component. Its Render is a pure function from Values to Kubernetes objects, kept as
// golden YAML in testdata; steps of the gardenlet apply the objects and judge their readiness.
package component
