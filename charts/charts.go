// Package charts embeds the Helm charts of Hortus in the binary, so that a landscape installs the same charts as a
// production garden.
package charts

import "embed"

// FS holds one folder per chart.
//
//go:embed all:garden all:gardenlet all:provider-local all:seed-support
var FS embed.FS
