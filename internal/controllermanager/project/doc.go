// Package project gives every Project a namespace and its members their roles there.
//
// Trigger: Projects, and the namespaces that belong to them. Writes: the namespace, roles and bindings, the Project's
// phase. Finalizer "gardener": a Project goes only after its Shoots and then its namespace are gone.
package project
