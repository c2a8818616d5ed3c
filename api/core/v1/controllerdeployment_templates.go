package v1

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resourceExpression is replaced in helm.values by a value of an object in resources. Nothing else of Go's templates is
// supported.
var resourceExpression = regexp.MustCompile(`\{\{ *\.resources\.([a-zA-Z0-9]+)\.data\.([a-zA-Z0-9]+) *\}\}`)

const resourceExpressionForm = "{{ .resources.<name>.data.<key> }}"

// ExpandResources returns a copy of values, decoded from JSON, in which lookup replaces each expression
// {{ .resources.<name>.data.<key> }} in a string. It returns the first error of lookup.
func ExpandResources(values any, lookup func(name, key string) (string, error)) (any, error) {
	switch v := values.(type) {
	case string:
		var failed error
		expanded := resourceExpression.ReplaceAllStringFunc(v, func(expression string) string {
			parts := resourceExpression.FindStringSubmatch(expression)
			value, err := lookup(parts[1], parts[2])
			if err != nil && failed == nil {
				failed = err
			}
			return value
		})
		return expanded, failed
	case []any:
		out := make([]any, 0, len(v))
		for _, element := range v {
			expanded, err := ExpandResources(element, lookup)
			if err != nil {
				return nil, err
			}
			out = append(out, expanded)
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			expanded, err := ExpandResources(v[key], lookup)
			if err != nil {
				return nil, err
			}
			out[key] = expanded
		}
		return out, nil
	}
	return values, nil
}

// validateTemplates checks the expressions in helm.values. Without resources, values are taken literally, but for
// expressions that lack their resource.
func validateTemplates(deployment *ControllerDeployment, path *field.Path) field.ErrorList {
	if deployment.Helm == nil || deployment.Helm.Values == nil || len(deployment.Helm.Values.Raw) == 0 {
		return nil
	}
	var values any
	if err := json.Unmarshal(deployment.Helm.Values.Raw, &values); err != nil {
		return field.ErrorList{field.Invalid(path, string(deployment.Helm.Values.Raw), err.Error())}
	}
	var names []string
	for _, resource := range deployment.Resources {
		names = append(names, resource.Name)
	}
	return validateExpressions(values, names, path)
}

func validateExpressions(values any, names []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch v := values.(type) {
	case string:
		for _, parts := range resourceExpression.FindAllStringSubmatch(v, -1) {
			if !slices.Contains(names, parts[1]) {
				errs = append(errs, field.Invalid(path, parts[0], fmt.Sprintf("resources has no %q (available: %s)", parts[1],
					orNone(names))))
			}
		}
		errs = append(errs, validateLiteral(resourceExpression.ReplaceAllString(v, ""), v, names, path)...)
	case []any:
		for i, element := range v {
			errs = append(errs, validateExpressions(element, names, path.Index(i))...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			errs = append(errs, validateLiteral(key, key, names, path)...)
			errs = append(errs, validateExpressions(v[key], names, path.Child(key))...)
		}
	}
	return errs
}

// validateLiteral checks the text of a value that is left without its expressions.
func validateLiteral(left, text string, names []string, path *field.Path) field.ErrorList {
	if len(names) == 0 || !strings.Contains(left, "{{") {
		return nil
	}
	return field.ErrorList{field.Invalid(path, text, "templates must be of the form "+resourceExpressionForm+
		", with letters and digits, and in values only")}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
