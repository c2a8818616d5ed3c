package image

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Replaceable are the names of the images that an installation may pull from repositories of its own.
var Replaceable = []string{
	"coredns", "hortus", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet", "pause",
}

// Repositories are repositories of images by the names of the images, such as kube-apiserver. An image keeps its tag
// and its digest there.
type Repositories map[string]string

// Of returns the image in its repository, or the same image if there is none for it.
func (r Repositories) Of(image string) string {
	end := len(image)
	if at := strings.Index(image, "@"); at >= 0 {
		end = at
	}
	if colon := strings.LastIndex(image[:end], ":"); colon > strings.LastIndex(image[:end], "/") {
		end = colon
	}
	repository, suffix := image[:end], image[end:]
	name := repository[strings.LastIndex(repository, "/")+1:]
	if other, ok := r[name]; ok {
		return other + suffix
	}
	return image
}

// Validate returns the names that are not the names of images, and repositories with a tag or a digest.
func (r Repositories) Validate() []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r)) {
		repository := r[name]
		switch {
		case !slices.Contains(Replaceable, name):
			errs = append(errs, fmt.Errorf("%s: unknown image (available: %s)", name, strings.Join(Replaceable, ", ")))
		case repository == "" || strings.Contains(repository, "@") ||
			strings.LastIndex(repository, ":") > strings.LastIndex(repository, "/"):
			errs = append(errs, fmt.Errorf("%s: invalid repository: %q (a repository without tag and digest)", name, repository))
		}
	}
	return errs
}
