package backupbucketvalidator

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestMismatchedIdentity(t *testing.T) {
	path := field.NewPath("spec", "credentialsRef")
	for target, want := range map[string]field.ErrorType{
		"local": "", "other": field.ErrorTypeInvalid, "": field.ErrorTypeNotFound,
	} {
		errs := MismatchedIdentity(path, "garden/backup", target, "local")
		if len(errs) == 0 && want == "" || len(errs) == 1 && errs[0].Type == want {
			continue
		}
		t.Errorf("target %q: %v", target, errs)
	}
}
