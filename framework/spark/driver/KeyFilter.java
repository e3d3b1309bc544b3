package stoker;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.List;
import javax.servlet.Filter;
import javax.servlet.FilterChain;
import javax.servlet.FilterConfig;
import javax.servlet.ServletException;
import javax.servlet.ServletRequest;
import javax.servlet.ServletResponse;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.apache.spark.ExecutorAllocationClient;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.SparkEnv;
import org.apache.spark.package$;
import org.apache.spark.scheduler.ExecutorDecommissionInfo;
import org.apache.spark.storage.BlockManagerId;
import scala.Option;
import scala.collection.Iterator;

/**
 * Stands before all web pages of a driver's JVM: who has not the key of the job's launch gets a 401. To who has it,
 * `POST /stoker/decommission?executors=0,3` has Spark give executors up, once their blocks are elsewhere; asked
 * again, it is the same. Where no other executor is there to take these it answers 409, but to `&alone=true`.
 * `GET /stoker/application` tells what executors have to know before they start: the application's id and Spark's
 * version. Spark's own API tells it in the same words, but takes a second to come up, for which all would wait.
 *
 * <p>Compiled by `make filter`, and once more with jakarta for javax, as Spark calls these from 4.0 on; how it gets
 * to drivers, and who has the key, is in `ui_key.py`.
 */
public final class KeyFilter implements Filter {
    private static final String DECOMMISSION = "/stoker/decommission";
    private static final String APPLICATION = "/stoker/application";

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
            String asked = ((HttpServletRequest) request).getRequestURI();
            if (DECOMMISSION.equals(asked)) {
                answer((HttpServletRequest) request, (HttpServletResponse) response);
            } else if (APPLICATION.equals(asked)) {
                tellApplication((HttpServletResponse) response);
            } else {
                chain.doFilter(request, response);
            }
            return;
        }
        HttpServletResponse refusal = (HttpServletResponse) response;
        refusal.setHeader("WWW-Authenticate", "Bearer");
        refusal.sendError(401, "This page is shown by Stoker's API alone");
    }

    /** The id is the application's own once its driver has a block manager, and executors are let in from then on. */
    private static void tellApplication(HttpServletResponse response) throws IOException {
        SparkEnv driver = SparkEnv.get();
        if (driver == null || driver.blockManager().blockManagerId() == null) {
            response.sendError(503, "No SparkContext is there");
        } else {
            response.setContentType("application/json");
            response.getWriter().println("{\"id\": \"" + driver.conf().getAppId() + "\",");
            response.getWriter().println("\"appSparkVersion\": \"" + package$.MODULE$.SPARK_VERSION() + "\"}");
        }
    }

    private static void answer(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String executors = request.getParameter("executors");
        Option context = SparkContext$.MODULE$.getActive();
        if (!"POST".equals(request.getMethod()) || executors == null) {
            response.sendError(400, "POST it with ?executors=ID,ID");
        } else if (context.isEmpty()) {
            response.sendError(503, "No SparkContext is active");
        } else {
            SparkContext driver = (SparkContext) context.get();
            ExecutorAllocationClient backend = (ExecutorAllocationClient) driver.schedulerBackend();
            List ids = Arrays.asList(executors.split(","));
            boolean heeded = request.getParameter("alone") != null || isCompanyThere(driver, backend, ids);
            for (int i = 0; heeded && i < ids.size(); i++) {
                decommission(backend, (String) ids.get(i));
            }
            response.setStatus(heeded ? 204 : 409);
        }
    }

    /** Whether there are others than these, and the driver, to take blocks: else Spark gives up to move them. */
    private static boolean isCompanyThere(SparkContext driver, ExecutorAllocationClient backend, List ids) {
        Iterator there = driver.env().blockManager().master().getMemoryStatus().keysIterator();
        while (there.hasNext()) {
            String other = ((BlockManagerId) there.next()).executorId();
            if (!ids.contains(other) && backend.isExecutorActive(other)) {
                return true;
            }
        }
        return false;
    }

    /** Spark heeds it for those alone that are there and not yet told. */
    private static void decommission(ExecutorAllocationClient backend, String id) {
        ExecutorDecommissionInfo why = new ExecutorDecommissionInfo("Stoker wants its place", Option.empty());
        backend.decommissionExecutor(id, why, false, false);
    }

    public void destroy() {
    }
}
