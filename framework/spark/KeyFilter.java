package stoker;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import javax.servlet.Filter;
import javax.servlet.FilterChain;
import javax.servlet.FilterConfig;
import javax.servlet.ServletException;
import javax.servlet.ServletRequest;
import javax.servlet.ServletResponse;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;

/**
 * Stands before all web pages of a driver's JVM: who has not the key of the job's launch gets a 401.
 *
 * <p>Compiled by `make filter`, and once more with jakarta for javax, as Spark calls these from 4.0 on; how it gets
 * to drivers, and who has the key, is in `ui.py`.
 */
public final class KeyFilter implements Filter {
    private byte[] expected;

    /** Without a key Spark does not start, rather than with pages for everybody. */
    public void init(FilterConfig config) throws ServletException {
        String key = config.getInitParameter("secret");
        if (key == null || key.isEmpty()) {
            throw new ServletException("stoker.KeyFilter has no key");
        }
        this.expected = ("Bearer " + key).getBytes(StandardCharsets.UTF_8);
    }

    /** Compares in a time that does not tell how much of a guess was right. */
    public void doFilter(ServletRequest request, ServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        String given = ((HttpServletRequest) request).getHeader("Authorization");
        if (given != null && MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), this.expected)) {
            chain.doFilter(request, response);
            return;
        }
        HttpServletResponse refusal = (HttpServletResponse) response;
        refusal.setHeader("WWW-Authenticate", "Bearer");
        refusal.sendError(401, "This page is shown by Stoker's API alone");
    }

    public void destroy() {
    }
}
