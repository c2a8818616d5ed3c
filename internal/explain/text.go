package explain

import (
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// writeText writes explanations for people: each problem, and indented below it what to do and the causes.
func writeText(out io.Writer, explanations []*Explanation, now time.Time) error {
	var b strings.Builder
	for i, e := range explanations {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s %s\n%s\n", e.Kind, path.Join(e.Namespace, e.Name), e.State)
		for _, note := range e.Notes {
			fmt.Fprintf(&b, "Note: %s\n", note)
		}
		if len(e.Problems) == 0 {
			b.WriteString("No problem is known.\n")
		}
		for _, p := range e.Problems {
			b.WriteString("\n")
			p.write(&b, "", now)
		}
		if len(e.Unread) > 0 {
			b.WriteString("\nNot read, so that causes may be missing:\n")
		}
		for _, text := range e.Unread {
			fmt.Fprintf(&b, "- %s\n", sentence(text))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (p *Problem) write(b *strings.Builder, indent string, now time.Time) {
	b.WriteString(indent + p.Object.String())
	if p.Since != nil {
		fmt.Fprintf(b, ", for %s", age(p.Since.Time, now))
	}
	fmt.Fprintf(b, ": %s\n", p.Message)
	indent += "  "
	if p.Action != "" {
		fmt.Fprintf(b, "%sTo do: %s\n", indent, p.Action)
	}
	for i := range p.Causes {
		p.Causes[i].write(b, indent, now)
	}
}

// String is the object as people name it, with the cluster that it is in, unless that is the garden.
func (o Object) String() string {
	if o.Place == InGarden {
		return o.Kind + " " + o.Name
	}
	where := o.Place.cluster()
	if o.Namespace != "" {
		where += ", namespace " + o.Namespace
	}
	return fmt.Sprintf("%s %s (%s)", o.Kind, o.Name, where)
}

// cluster is the kind of the cluster, for people.
func (p Place) cluster() string {
	switch p {
	case InSeed:
		return "Seed"
	case InShoot:
		return "Shoot"
	}
	return "garden"
}
