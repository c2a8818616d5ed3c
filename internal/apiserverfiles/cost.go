package apiserverfiles

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	api "k8s.io/apiserver/pkg/apis/apiserver"
)

// Limits on a file and on its CEL expressions. Everybody who may write a Shoot may have a server compile expressions,
// and the time for that grows faster than their length: 6 s for 60 KiB of "||", 0.3 s for 300 bytes of nested lists.
// Within these limits the slowest file takes less than 100 ms (BenchmarkSlowestFiles).
const (
	// maxSize bounds a file in bytes: decoding and checking one without expressions takes up to 2 µs per byte.
	maxSize = 32 << 10
	// maxExpressions bounds the expressions of a file, each of which takes 0.2 ms at least.
	maxExpressions = 128
	// maxExpressionSize bounds one expression, and maxExpressionsSize all of a file, in bytes. The slowest within the
	// other limits take 18 µs per byte.
	maxExpressionSize, maxExpressionsSize = 1 << 10, 4 << 10
	// maxBrackets bounds the opening brackets of an expression: only with them types get nested, which makes the compiler
	// cubic. Those in strings count, because nothing has parsed the expression yet.
	maxBrackets = 20
)

const (
	// maxProblems bounds the listed problems of one file, which can have one for every few bytes.
	maxProblems = 10
	// maxProblemSize bounds the text of one problem in bytes; many quote the value.
	maxProblemSize = 1 << 10
)

type expression struct {
	path *field.Path
	text string
}

// costs says which limits the expressions of a file exceed.
func costs(expressions []expression) field.ErrorList {
	var errs field.ErrorList
	n, size := 0, 0
	for _, e := range expressions {
		if e.text == "" {
			continue
		}
		n, size = n+1, size+len(e.text)
		if len(e.text) > maxExpressionSize {
			errs = append(errs, field.Forbidden(e.path, fmt.Sprintf("has %d bytes, must have at most %d", len(e.text),
				maxExpressionSize)))
		}
		if brackets := strings.Count(e.text, "(") + strings.Count(e.text, "[") +
			strings.Count(e.text, "{"); brackets > maxBrackets {
			detail := fmt.Sprintf("has %d opening brackets, must have at most %d", brackets, maxBrackets)
			errs = append(errs, field.Forbidden(e.path, detail))
		}
	}
	if n > maxExpressions {
		detail := fmt.Sprintf("has %d CEL expressions, must have at most %d in the file", n, maxExpressions)
		errs = append(errs, field.Forbidden(expressions[0].path.Root(), detail))
	}
	if size > maxExpressionsSize {
		detail := fmt.Sprintf("has CEL expressions of %d bytes, must have at most %d in the file", size, maxExpressionsSize)
		errs = append(errs, field.Forbidden(expressions[0].path.Root(), detail))
	}
	return errs
}

// authenticationExpressions lists those of the file, empty ones included.
func authenticationExpressions(config *api.AuthenticationConfiguration) []expression {
	var all []expression
	for i := range config.JWT {
		jwt, path := &config.JWT[i], field.NewPath("jwt").Index(i)
		for j, rule := range jwt.ClaimValidationRules {
			all = append(all, expression{path.Child("claimValidationRules").Index(j).Child("expression"), rule.Expression})
		}
		mappings := path.Child("claimMappings")
		all = append(all,
			expression{mappings.Child("username", "expression"), jwt.ClaimMappings.Username.Expression},
			expression{mappings.Child("groups", "expression"), jwt.ClaimMappings.Groups.Expression},
			expression{mappings.Child("uid", "expression"), jwt.ClaimMappings.UID.Expression})
		for j, extra := range jwt.ClaimMappings.Extra {
			all = append(all, expression{mappings.Child("extra").Index(j).Child("valueExpression"), extra.ValueExpression})
		}
		for j, rule := range jwt.UserValidationRules {
			all = append(all, expression{path.Child("userValidationRules").Index(j).Child("expression"), rule.Expression})
		}
	}
	return all
}

// authorizationExpressions lists those of the file, empty ones included.
func authorizationExpressions(config *api.AuthorizationConfiguration) []expression {
	var all []expression
	for i := range config.Authorizers {
		if config.Authorizers[i].Webhook == nil {
			continue
		}
		path := field.NewPath("authorizers").Index(i).Child("webhook", "matchConditions")
		for j, condition := range config.Authorizers[i].Webhook.MatchConditions {
			all = append(all, expression{path.Index(j).Child("expression"), condition.Expression})
		}
	}
	return all
}
