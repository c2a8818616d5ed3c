package v1

// Reference returns the full reference of a valid repository: with its digest, or else its tag.
func (r *OCIRepository) Reference() string {
	switch {
	case r.Ref != nil:
		return *r.Ref
	case r.Repository == nil:
		return ""
	case r.Digest != nil:
		return *r.Repository + "@" + *r.Digest
	case r.Tag != nil:
		return *r.Repository + ":" + *r.Tag
	}
	return *r.Repository
}
