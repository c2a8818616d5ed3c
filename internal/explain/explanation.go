package explain

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Explanation says why a Shoot or a Seed is as it is.
type Explanation struct {
	Kind      string    `json:"kind"`                // Shoot or Seed.
	Namespace string    `json:"namespace,omitempty"` // Empty for Seeds.
	Name      string    `json:"name"`
	State     string    `json:"state"` // What is being done, or was done last.
	Problems  []Problem `json:"problems"`
	Notes     []string  `json:"notes,omitempty"`  // States that somebody has requested, and that explain others.
	Unread    []string  `json:"unread,omitempty"` // What was not read, with the reason: causes may be missing.
}

// Problem is something that is not as it should be.
type Problem struct {
	Object  Object       `json:"object"`
	Message string       `json:"message"`
	Since   *metav1.Time `json:"since,omitempty"`
	Action  string       `json:"action,omitempty"` // What a person has to do; empty if nothing, or if the causes say it.
	Causes  []Problem    `json:"causes,omitempty"`
}

// Place is the cluster that an object is in.
type Place string

// The places of objects.
const (
	InGarden Place = "garden"
	InSeed   Place = "seed"
	InShoot  Place = "shoot"
)

// Object names what has a problem. Conditions, constraints and operations have their type as name.
type Object struct {
	Place     Place  `json:"place"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}
