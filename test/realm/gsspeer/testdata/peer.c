/*
 * A program that is one end of a GSS-API security context, by the system's
 * libgssapi_krb5: an implementation that has nothing in common with the one under test.
 *
 * usage: peer init SERVICE@HOST | peer accept
 *
 * Everything on stdin and stdout is frames: a length of 4 bytes, the most
 * significant first, and so many bytes. First the tokens of context creation are
 * exchanged, which init begins. Then each frame read is a request, and is answered
 * with a frame that begins with 0, or with 1 and a message:
 *
 *	'M' MESSAGE               the MIC of a message
 *	'V' LENGTH MESSAGE MIC    nothing, if it is the peer's MIC of the message
 *	'W' MESSAGE               the message sealed
 *	'U' TOKEN                 the message that is sealed in it
 *	'N'                       the name of the peer
 *
 * The declarations are those of RFC 2744, so that no package with headers is
 * needed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint32_t OM_uint32;
typedef struct { size_t length; void *value; } gss_buffer_desc, *gss_buffer_t;
typedef struct { OM_uint32 length; void *elements; } gss_OID_desc, *gss_OID;
typedef struct gss_name *gss_name_t;
typedef struct gss_cred *gss_cred_id_t;
typedef struct gss_ctx *gss_ctx_id_t;

extern gss_OID GSS_C_NT_HOSTBASED_SERVICE;
OM_uint32 gss_import_name(OM_uint32 *, gss_buffer_t, gss_OID, gss_name_t *);
OM_uint32 gss_init_sec_context(OM_uint32 *, gss_cred_id_t, gss_ctx_id_t *, gss_name_t, gss_OID, OM_uint32, OM_uint32, void *,
	gss_buffer_t, gss_OID *, gss_buffer_t, OM_uint32 *, OM_uint32 *);
OM_uint32 gss_accept_sec_context(OM_uint32 *, gss_ctx_id_t *, gss_cred_id_t, gss_buffer_t, void *, gss_name_t *, gss_OID *, gss_buffer_t,
	OM_uint32 *, OM_uint32 *, gss_cred_id_t *);
OM_uint32 gss_get_mic(OM_uint32 *, gss_ctx_id_t, OM_uint32, gss_buffer_t, gss_buffer_t);
OM_uint32 gss_verify_mic(OM_uint32 *, gss_ctx_id_t, gss_buffer_t, gss_buffer_t, OM_uint32 *);
OM_uint32 gss_wrap(OM_uint32 *, gss_ctx_id_t, int, OM_uint32, gss_buffer_t, int *, gss_buffer_t);
OM_uint32 gss_unwrap(OM_uint32 *, gss_ctx_id_t, gss_buffer_t, gss_buffer_t, int *, OM_uint32 *);
OM_uint32 gss_display_name(OM_uint32 *, gss_name_t, gss_buffer_t, gss_OID *);
OM_uint32 gss_display_status(OM_uint32 *, OM_uint32, int, gss_OID, OM_uint32 *, gss_buffer_t);

enum { MUTUAL = 2, CONF = 16, INTEG = 32, MAX_FRAME = 16 << 20 };
static gss_OID_desc krb5 = {9, "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"};

static void need(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "peer: %s\n", what);
		exit(1);
	}
}

static int failed(OM_uint32 major) { return (major & 0xffff0000u) != 0; }

static void status(const char *what, OM_uint32 major, OM_uint32 minor, char *out, size_t n)
{
	gss_buffer_desc a = {0, 0}, b = {0, 0};
	OM_uint32 m, more = 0;

	gss_display_status(&m, major, 1, &krb5, &more, &a);
	more = 0;
	gss_display_status(&m, minor, 2, &krb5, &more, &b);
	snprintf(out, n, "%s: %.*s: %.*s", what, (int)a.length, (char *)a.value, (int)b.length, (char *)b.value);
}

static void check(const char *what, OM_uint32 major, OM_uint32 minor)
{
	char why[1024];

	if (!failed(major))
		return;
	status(what, major, minor, why, sizeof why);
	need(0, why);
}

static void get(void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t k = read(0, (char *)p + done, n - done);
		if (k == 0 && done == 0)
			exit(0);
		need(k > 0, "end of the input within a frame");
		done += k;
	}
}

static gss_buffer_desc frame(void)
{
	unsigned char head[4];
	gss_buffer_desc b;

	get(head, 4);
	b.length = (size_t)head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3];
	need(b.length <= MAX_FRAME, "frame too long");
	b.value = malloc(b.length + 1);
	if (b.length > 0)
		get(b.value, b.length);
	return b;
}

static void put(int kind, const void *p, size_t n)
{
	size_t all = n + (kind >= 0);
	unsigned char head[5] = {all >> 24, all >> 16, all >> 8, all, kind};

	need(fwrite(head, 1, kind >= 0 ? 5 : 4, stdout) > 0, "write");
	need(fwrite(p, 1, n, stdout) == n && fflush(stdout) == 0, "write");
}

static void answer(const char *what, OM_uint32 major, OM_uint32 minor, gss_buffer_desc *out)
{
	char why[1024];

	if (!failed(major)) {
		put(0, out->value, out->length);
		return;
	}
	status(what, major, minor, why, sizeof why);
	put(1, why, strlen(why));
}

int main(int argc, char **argv)
{
	gss_ctx_id_t ctx = 0;
	gss_name_t name = 0;
	OM_uint32 major, minor, flags = 0;
	gss_buffer_desc in = {0, 0}, out = {0, 0};

	if (argc == 3 && strcmp(argv[1], "init") == 0) {
		gss_buffer_desc host = {strlen(argv[2]), argv[2]};
		major = gss_import_name(&minor, &host, GSS_C_NT_HOSTBASED_SERVICE, &name);
		check("gss_import_name", major, minor);
		do {
			major = gss_init_sec_context(&minor, 0, &ctx, name, &krb5, MUTUAL | CONF | INTEG, 0, 0, &in, 0, &out, &flags, 0);
			check("gss_init_sec_context", major, minor);
			if (out.length > 0)
				put(-1, out.value, out.length);
			if (major & 1)
				in = frame();
		} while (major & 1);
	} else if (argc == 2 && strcmp(argv[1], "accept") == 0) {
		do {
			in = frame();
			major = gss_accept_sec_context(&minor, &ctx, 0, &in, 0, &name, 0, &out, &flags, 0, 0);
			check("gss_accept_sec_context", major, minor);
			if (out.length > 0)
				put(-1, out.value, out.length);
		} while (major & 1);
	} else {
		need(0, "usage: peer init SERVICE@HOST | peer accept");
	}
	need((flags & (MUTUAL | CONF | INTEG)) == (MUTUAL | CONF | INTEG), "the context has not all services");
	put(0, "established", 11);
	for (;;) {
		gss_buffer_desc f = frame();
		need(f.length >= 1, "empty request");
		gss_buffer_desc msg = {f.length - 1, (char *)f.value + 1};
		unsigned char *p = msg.value;
		gss_buffer_desc res = {0, 0};
		int conf = 0;
		size_t n;
		switch (*(char *)f.value) {
		case 'M':
			major = gss_get_mic(&minor, ctx, 0, &msg, &res);
			answer("gss_get_mic", major, minor, &res);
			break;
		case 'V':
			need(msg.length >= 4, "short request");
			n = (size_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
			need(n <= msg.length - 4, "short request");
			gss_buffer_desc text = {n, p + 4}, mic = {msg.length - 4 - n, p + 4 + n};
			major = gss_verify_mic(&minor, ctx, &text, &mic, 0);
			answer("gss_verify_mic", major, minor, &res);
			break;
		case 'W':
			major = gss_wrap(&minor, ctx, 1, 0, &msg, &conf, &res);
			need(failed(major) || conf, "wrapped without sealing");
			answer("gss_wrap", major, minor, &res);
			break;
		case 'U':
			major = gss_unwrap(&minor, ctx, &msg, &res, &conf, 0);
			need(failed(major) || conf, "the token is not sealed");
			answer("gss_unwrap", major, minor, &res);
			break;
		case 'N':
			major = gss_display_name(&minor, name, &res, 0);
			answer("gss_display_name", major, minor, &res);
			break;
		default:
			need(0, "unknown request");
		}
		free(f.value);
	}
}
