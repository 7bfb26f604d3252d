package ring

// ShortenPayload makes the payload of entries less than the kernel takes.
func ShortenPayload(s *Server) { s.payload = minPayload }
