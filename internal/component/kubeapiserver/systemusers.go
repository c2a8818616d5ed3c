package kubeapiserver

import (
	"hortus.dev/hortus/internal/component/kubecontrollermanager"
	"hortus.dev/hortus/internal/component/kubescheduler"
	"hortus.dev/hortus/internal/component/machinecontrollermanager"
	"hortus.dev/hortus/internal/component/resourcemanager"
	"hortus.dev/hortus/internal/component/shootsystem"
)

// UserGardenlet is the user of the gardenlet in a Shoot.
const UserGardenlet = "gardener.cloud:system:gardenlet"

// systemUser is a user of the control plane in its Shoot, known by a client certificate.
type systemUser struct {
	name string
	// master: the user is in system:masters, whose requests the server authorizes before any webhook.
	master bool
	// atKubelets: the user sends requests to kubelets only, which have the server authorize them.
	atKubelets bool
}

// systemUsers are left out of the default audit policy if they send requests to the server, and of what webhooks of
// users decide about if they could be called for them. Any change, also of the order, replaces the API servers of all
// Shoots.
var systemUsers = []systemUser{
	{name: "system:apiserver", master: true}, // The server itself.
	{name: kubecontrollermanager.CommonName},
	{name: kubescheduler.CommonName},
	{name: UserGardenlet, master: true},
	{name: resourcemanager.CommonName, master: true},
	{name: machinecontrollermanager.CommonName},
	{name: shootsystem.UserKubeletClient, atKubelets: true}, // The server again, for logs and shells.
}

// unloggedUsers are the users whose requests the default audit policy leaves out.
func unloggedUsers() []string {
	return namesOf(func(u systemUser) bool { return !u.atKubelets })
}

// sparedUsers are the users that webhooks of users do not decide about.
func sparedUsers() []string {
	return namesOf(func(u systemUser) bool { return !u.master })
}

func namesOf(match func(systemUser) bool) []string {
	var names []string
	for _, u := range systemUsers {
		if match(u) {
			names = append(names, u.name)
		}
	}
	return names
}
