package controllerinstallation

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// envSeedName is the environment variable by which the programs of an extension know their seed.
const envSeedName = "SEED_NAME"

// podSpecs says where each kind has the specification of its pods.
var podSpecs = map[string][]string{
	"Pod":         {"spec"},
	"Deployment":  {"spec", "template", "spec"},
	"StatefulSet": {"spec", "template", "spec"},
	"DaemonSet":   {"spec", "template", "spec"},
	"ReplicaSet":  {"spec", "template", "spec"},
	"Job":         {"spec", "template", "spec"},
	"CronJob":     {"spec", "jobTemplate", "spec", "template", "spec"},
}

// nameSeed gives all containers of an object the seed's name, unless their author has set the variable.
func nameSeed(o *unstructured.Unstructured, seed string) error {
	return eachContainer(o, func(container map[string]any) error {
		_, err := addEnv(container, envSeedName, seed)
		return err
	})
}

// eachContainer changes the containers and init containers of an object, if its kind has pods.
func eachContainer(o *unstructured.Unstructured, change func(map[string]any) error) error {
	where, runsPods := podSpecs[o.GetKind()]
	if !runsPods {
		return nil
	}
	for _, field := range []string{"initContainers", "containers"} {
		path := append(slices.Clone(where), field)
		containers, found, err := unstructured.NestedSlice(o.Object, path...)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		for i := range containers {
			container, isMap := containers[i].(map[string]any)
			if !isMap {
				continue // The API server reports the error.
			}
			if err := change(container); err != nil {
				return err
			}
		}
		if err := unstructured.SetNestedSlice(o.Object, containers, path...); err != nil {
			return err
		}
	}
	return nil
}

// addEnv adds an environment variable, and reports whether the container did not have it.
func addEnv(container map[string]any, name, value string) (bool, error) {
	env, _, err := unstructured.NestedSlice(container, "env")
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(env, func(e any) bool {
		variable, isMap := e.(map[string]any)
		return isMap && variable["name"] == name
	}) {
		return false, nil
	}
	container["env"] = append(env, map[string]any{"name": name, "value": value})
	return true, nil
}
