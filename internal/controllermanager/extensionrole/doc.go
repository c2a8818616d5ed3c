// Package extensionrole grants extensions more rights in the garden: it binds ClusterRoles of operators to the
// ServiceAccounts of extensions in seeds.
//
// Trigger: ClusterRoles with the label authorization.gardener.cloud/custom-extensions-permissions=true, ServiceAccounts
// that gardenlets have made, ControllerInstallations. Inputs: the role's annotation
// authorization.gardener.cloud/extensions-serviceaccount-selector. Output: one ClusterRoleBinding per role, whose
// subjects are the selected ServiceAccounts; it is deleted when there are none, or with the label or the role.
package extensionrole
