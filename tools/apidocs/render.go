package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const generated = "<!-- Made by tools/apidocs from the types below api/. Do not edit; run 'make generate'. -->\n\n"

func (p *apiPackage) file() string { return p.group + "-" + p.version + ".md" }

func (p *apiPackage) render() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s# %s/%s\n\n", generated, p.group, p.version)
	if p.doc != "" {
		fmt.Fprintf(&out, "%s\n\n", p.doc)
	}
	out.WriteString("Kinds:")
	for i, kind := range p.kinds {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(&out, " [%s](#%s)", kind, anchor(kind))
	}
	out.WriteString(".\nEvery kind has `apiVersion` and `kind` besides the fields shown.\n\n## Kinds\n\n")
	for _, kind := range p.kinds {
		p.renderType(&out, p.types[kind])
	}
	if others := p.others(); len(others) > 0 {
		out.WriteString("## Types\n\n")
		for _, name := range others {
			p.renderType(&out, p.types[name])
		}
	}
	return append(bytes.TrimRight(out.Bytes(), "\n"), '\n')
}

// others are the types that kinds reach and that are not shown inline, in alphabetical order.
func (p *apiPackage) others() []string {
	reached := map[string]bool{}
	var reach func(t *apiType)
	reach = func(t *apiType) {
		for _, f := range t.fields {
			for _, ref := range f.refs {
				if f.inline {
					reach(p.types[ref])
				} else if !reached[ref] {
					reached[ref] = true
					reach(p.types[ref])
				}
			}
		}
	}
	for _, kind := range p.kinds {
		reach(p.types[kind])
	}
	for _, kind := range p.kinds {
		delete(reached, kind)
	}
	return slices.Sorted(maps.Keys(reached))
}

func (p *apiPackage) renderType(out *bytes.Buffer, t *apiType) {
	fmt.Fprintf(out, "### %s\n\n", t.name)
	if t.doc != "" {
		fmt.Fprintf(out, "%s\n\n", t.doc)
	}
	for _, rule := range t.rules {
		fmt.Fprintf(out, "- Rule: %s.\n", strings.TrimSuffix(rule, "."))
	}
	if len(t.rules) > 0 {
		out.WriteString("\n")
	}
	if t.base != "" {
		fmt.Fprintf(out, "A `%s`.\n\n", t.base)
	}
	if len(t.values) > 0 {
		out.WriteString("| value | meaning |\n|---|---|\n")
		for _, v := range t.values {
			fmt.Fprintf(out, "| `%s` | %s |\n", strings.Trim(v.literal, `"`), cell(v.doc))
		}
		out.WriteString("\n")
	}
	if len(t.fields) > 0 {
		out.WriteString("| field | type | required | meaning |\n|---|---|---|---|\n")
		p.renderFields(out, t)
		out.WriteString("\n")
	}
}

func (p *apiPackage) renderFields(out *bytes.Buffer, t *apiType) {
	for _, f := range t.fields {
		if f.inline {
			if len(f.refs) == 1 {
				p.renderFields(out, p.types[f.refs[0]])
			} else {
				fmt.Fprintf(out, "| *(inlined)* | %s | | the fields of this type |\n", p.link(f))
			}
			continue
		}
		required := ""
		if f.required {
			required = "yes"
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", f.name, p.link(f), required,
			cell(strings.TrimPrefix(f.doc, f.name+" ")))
	}
}

// link shows the type of a field, with a link to its section.
func (p *apiPackage) link(f field) string {
	if len(f.refs) != 1 {
		return "`" + f.typ + "`"
	}
	return fmt.Sprintf("[`%s`](#%s)", f.typ, anchor(f.refs[0]))
}

// anchor is what Markdown makes of a heading that is a single word.
func anchor(name string) string { return strings.ToLower(name) }

// cell makes text fit into a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

func renderIndex(packages []*apiPackage) []byte {
	var out bytes.Buffer
	out.WriteString(generated + "# API reference\n\n")
	out.WriteString("Required: the field has no default and may not be missing; validation requires more. `kubectl explain` shows the same texts.\n\n")
	out.WriteString("| group and version | kinds |\n|---|---|\n")
	for _, p := range packages {
		links := make([]string, len(p.kinds))
		for i, kind := range p.kinds {
			links[i] = fmt.Sprintf("[%s](%s#%s)", kind, p.file(), anchor(kind))
		}
		fmt.Fprintf(&out, "| [%s/%s](%s) | %s |\n", p.group, p.version, p.file(), strings.Join(links, ", "))
	}
	return out.Bytes()
}
