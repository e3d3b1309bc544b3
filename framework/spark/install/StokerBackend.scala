/*
 * The master `spark+stoker://HOST:PORT`: Spark's driver asks a Stoker daemon for executors and gives them back.
 *
 * Here is what runs in the user's driver, for Spark 3.5 (Scala 2.12) and 4 (Scala 2.13) alike: who is asked, what is
 * asked, what the answers mean to Spark. How Spark comes here is in `StokerClusterManager.scala`, how it is sent in
 * `StokerDaemon.scala`, how this is compiled in `backend_jar.py`, what the daemon makes of it in
 * `daemon/submission/applications.py`. The package is one of Spark's since its interfaces are open to no other.
 */
package org.apache.spark.scheduler.cluster.stoker

import java.io.IOException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}
import java.security.SecureRandom
import java.util.Base64
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import scala.collection.JavaConverters._
import scala.concurrent.Future
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.{SparkContext, SPARK_VERSION}
import org.apache.spark.internal.Logging
import org.apache.spark.resource.ResourceProfile
import org.apache.spark.scheduler.{ExecutorDecommissionInfo, ExecutorExited, TaskSchedulerImpl}
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend

/** Asks the daemons at `urls` for executors. All talk after the first is on one thread, so that none of Spark's waits. */
class StokerBackend(scheduler: TaskSchedulerImpl, sc: SparkContext, urls: Seq[String])
    extends CoarseGrainedSchedulerBackend(scheduler, sc.env.rpcEnv) with Logging {
  import StokerBackend._

  private val daemon = new Daemon(urls, setting("spark.stoker.ca", "STOKER_CA"))
  private val application = applicationName()
  /** The job's id, its key, and how many executors are to be there before the first task. */
  @volatile private var job: Option[(String, String)] = None
  @volatile private var expected = 0
  @volatile private var leaving = false

  /** The job that this driver belongs to already, and its key; none when it is its user's. */
  private def own: Option[(String, String)] =
    for (id <- conf.getOption("spark.stoker.job"); key <- conf.getOption(JobSecret)) yield (id, key)

  /** What Spark wants by now, and what of it the daemon does not know yet. */
  private val wishes = new Wishes
  private val talk = new Thread(() => converse(), "stoker")
  private val started = System.nanoTime()
  /** Why executors are not there yet, as it was said last; lost executors that Spark was told of. */
  private var waits = ""
  private val told = new java.util.HashSet[String]
  private var pause = 2.0

  protected override val minRegisteredRatio: Double =
    if (conf.contains("spark.scheduler.minRegisteredResourcesRatio")) super.minRegisteredRatio else 0.8

  override def applicationId(): String = application

  override def sufficientResourcesRegistered(): Boolean =
    totalRegisteredExecutors.get() >= expected * minRegisteredRatio

  /** Cores by which data is parted where nobody says into how many parts: also before executors have brought them. */
  override def defaultParallelism(): Int =
    if (sufficientResourcesRegistered()) super.defaultParallelism()
    else conf.getInt("spark.default.parallelism", math.max(expected * conf.getInt("spark.executor.cores", 1), 2))

  override def start(): Unit = {
    requireSecrecy()
    keepOurJar()
    Draining.foreach { case (name, value) => conf.setIfMissing(name, value) }
    allowProfiles()
    DriverEnd.watch()
    super.start()
    val answer = register()
    val id = answer.get("id").asText
    job = Some((id, answer.get("key").asText))
    conf.remove("spark.stoker.token") // executors are sent all settings, and have no business with it
    pause = answer.get("heartbeat").asDouble
    expected = answer.get("executors").asInt
    say(s"this is $id on ${daemon.url}; `stoker job $id` says how it is doing")
    talk.setDaemon(true)
    talk.start()
  }

  override def stop(): Unit = stop(0)

  override def stop(exitCode: Int): Unit = {
    leaving = true
    wishes.wake()
    // A driver of the daemon's may go on without Spark: that is said before its executors end, whom others would follow.
    if (own.nonEmpty) farewell(exitCode)
    try super.stop()
    finally farewell(exitCode)
  }

  private def farewell(exitCode: Int): Unit = for ((id, key) <- job) {
    job = None
    talk.join(Daemon.ConnectMillis.toLong)
    leave(id, key, goodbye(exitCode))
  }

  /** Say goodbye, and again for a while where nobody hears it: a daemon that starts would take silence for a failure. */
  private def leave(id: String, key: String, said: ObjectNode): Unit = {
    val deadline = System.nanoTime() + GoodbyeNanos
    var heard = false
    while (!heard) {
      heard = true
      try daemon.ask("DELETE", s"/v1/applications/$id", Some(key), said)
      catch {
        case refused: StokerException => logWarning(s"Stoker does not take the goodbye: ${refused.getMessage}")
        case _: IOException if System.nanoTime() < deadline =>
          heard = false
          Thread.sleep(500)
        case NonFatal(error) => logWarning(s"Stoker was not told of the end, and notices it by itself: $error")
      }
    }
  }

  /** How the driver ends; `exitCode` is what Spark says of it, which is 0 when it does not know. */
  private def goodbye(exitCode: Int): ObjectNode = {
    val body = daemon.node()
    DriverEnd.known() match {
      case _ if exitCode != 0 => body.put("exit_code", exitCode & 0xff)
      case None => body.put("stopped", true)
      case Some(end) =>
        end.exitCode.foreach(code => body.put("exit_code", code & 0xff))
        end.signal.foreach(body.put("signal", _))
        end.error.foreach(thrown => body.put("error", thrown.toString.take(LongestError)))
    }
    body
  }

  protected override def doRequestTotalExecutors(totals: Map[ResourceProfile, Int]): Future[Boolean] = {
    wishes.want(totals)
    Future.successful(true)
  }

  protected override def doKillExecutors(ids: Seq[String]): Future[Boolean] = {
    wishes.release(ids)
    Future.successful(true)
  }

  // ---- the first word ----------------------------------------------------------------------------

  /** The driver sends executors all settings, and runs what it is sent: nobody else may talk to it. */
  private def requireSecrecy(): Unit = {
    if (!sc.env.securityManager.isAuthenticationEnabled() || !conf.getBoolean("spark.network.crypto.enabled", false)) {
      throw new StokerException("spark.authenticate and spark.network.crypto.enabled should be true: " +
        "`stoker spark-conf` prints all settings that a driver needs")
    }
    // Each application has a secret of its own, whatever file its settings came from; the daemon gave it that
    // to a driver that it started.
    if (own.isEmpty) conf.set("spark.authenticate.secret", random(32))
  }

  /** Executors have no use for the jar that this is in, and need not fetch it. */
  private def keepOurJar(): Unit = {
    for (jars <- sc.addedJars.values; jar <- jars.keys if jar.endsWith(OurJar)) jars.remove(jar)
    for (urls <- conf.getOption(InitialJars)) {
      val others = urls.split(",").filterNot(_.endsWith(OurJar))
      if (others.isEmpty) conf.remove(InitialJars) else conf.set(InitialJars, others.mkString(","))
    }
  }

  /** Spark refuses resource profiles on masters that it does not know, and asks nobody: it looks at their URLs. */
  private def allowProfiles(): Unit =
    try {
      val known = sc.resourceProfileManager.getClass.getDeclaredField("isK8s")
      known.setAccessible(true)
      known.setBoolean(sc.resourceProfileManager, true)
    } catch {
      case NonFatal(error) => logWarning(s"This Spark cannot be told that resource profiles are served: $error")
    }

  private def register(): JsonNode = {
    val body = daemon.node()
    body.put("application_id", application)
    body.put("spark", SPARK_VERSION)
    body.put("user", sc.sparkUser)
    if (own.isEmpty) body.put("secret", sc.env.securityManager.getSecretKey())
    val driver = body.putObject("driver")
    driver.put("host", conf.get("spark.driver.host"))
    driver.put("port", conf.get("spark.driver.port").toInt)
    sc.uiWebUrl.foreach(driver.put("ui", _))
    val properties = body.putObject("properties")
    for ((name, value) <- conf.getAll if name.startsWith("spark.") && !Private.exists(name.startsWith)) {
      properties.put(name, value)
    }
    // As whom executors read and write where nobody asks for more than a name.
    properties.put("spark.executorEnv.SPARK_USER", sc.sparkUser)
    try own match {
      case Some((id, key)) => daemon.ask("PUT", s"/v1/applications/$id", Some(key), body)
      case None => daemon.ask("POST", "/v1/applications", token(), body, once = true)
    } catch {
      case error: IOException => throw new StokerException(s"no daemon answers at ${urls.mkString(", ")}: ${cause(error)}")
    }
  }

  private def token(): Option[String] =
    setting("spark.stoker.token.file", "STOKER_TOKEN_FILE").map { path =>
      if (openToAll(Paths.get(path)))
        throw new StokerException(s"$path: everybody on this machine may use the token in it; chmod 600 $path")
      try new String(Files.readAllBytes(Paths.get(path)), UTF_8).trim
      catch { case error: IOException => throw new StokerException(s"the token in $path cannot be read: $error") }
    }.orElse(setting("spark.stoker.token", "STOKER_TOKEN"))

  /** Whether others than owner and group may use a file, and we could close it to them. */
  private def openToAll(path: Path): Boolean =
    try {
      val ours = Set("root", Files.getOwner(path).getName).contains(System.getProperty("user.name"))
      val others = Files.getPosixFilePermissions(path).asScala.exists(_.name.startsWith("OTHERS_"))
      ours && others && Files.isRegularFile(path) && !Files.getFileStore(path).isReadOnly
    } catch { case _: IOException | _: UnsupportedOperationException => false } // said when it is read

  private def setting(property: String, variable: String): Option[String] =
    sc.conf.getOption(property).orElse(sys.env.get(variable)).filter(_.nonEmpty)

  // ---- what is said from then on -----------------------------------------------------------------

  /** Tell the daemon what is new, and now and then that the driver lives; until the job is over. */
  private def converse(): Unit = {
    var silent = false
    while (!leaving) {
      try {
        for ((id, key) <- job) tell(id, Some(key))
        if (silent) say(s"${daemon.url} answers again")
        silent = false
      } catch {
        case error: RefusedException if error.status == 404 || error.status == 401 => end(error.getMessage)
        case error: IOException =>
          if (!silent) say(s"${urls.mkString(", ")} does not answer (${cause(error)}); the session goes on, and it is asked again")
          silent = true
        case NonFatal(error) => logWarning("Stoker's answer was not understood", error)
      }
      wishes.await(pause)
    }
  }

  private def tell(id: String, key: Option[String]): Unit = {
    for (totals <- wishes.totals) {
      val body = daemon.node()
      val profiles = body.putArray("profiles")
      for ((profile, total) <- totals) describe(profiles.addObject(), profile, total)
      // What can never be is said once: the driver goes on without it, and gives its signs of life.
      val why = try Option(daemon.ask("PUT", s"/v1/applications/$id/executors", key, body).get("reason")).map(_.asText)
      catch { case refused: RefusedException if refused.status == 422 => Some(refused.getMessage) }
      why.filter(_.nonEmpty).foreach(text => logWarning(s"Stoker: ${text.stripPrefix("stoker: ")}"))
      wishes.toldTotals(totals)
    }
    val released = wishes.released
    if (released.nonEmpty) {
      val body = daemon.node()
      val numbers = body.putArray("numbers")
      released.foreach(number => numbers.add(number.toInt))
      daemon.ask("POST", s"/v1/applications/$id/release", key, body)
      wishes.toldReleased(released)
    }
    heed(daemon.ask("POST", s"/v1/applications/$id/heartbeat", key, daemon.node()))
  }

  private def describe(body: ObjectNode, profile: ResourceProfile, total: Int): Unit = {
    body.put("id", profile.id)
    body.put("total", total)
    val amounts = body.putObject("executor")
    for ((name, request) <- profile.executorResources) amounts.put(name, request.amount)
  }

  /** Do what the daemon answers to a heartbeat. */
  private def heed(answer: JsonNode): Unit = {
    for (why <- Option(answer.get("stop")).filterNot(_.isNull)) end(why.asText)
    for (why <- Option(answer.get("waits")).filterNot(_.isNull).map(_.asText)) {
      // In words only when that lasts, and when there is something new.
      if (why != waits && System.nanoTime() - started > WaitsNanos) {
        waits = why
        say(s"no executors yet: $why")
      }
    }
    for (lost <- items(answer, "lost")) {
      val number = lost.get("number").asText
      val why = ExecutorExited(-1, exitCausedByApp = false, lost.get("reason").asText)
      if (told.add(number)) removeExecutor(number, why)
    }
    val leave = items(answer, "decommission").map(_.asText).toArray
    val alone = Option(answer.get("alone")).exists(_.asBoolean)
    if (leave.nonEmpty && (alone || companyOf(leave))) {
      val info = ExecutorDecommissionInfo("Stoker wants its place", None)
      decommissionExecutors(leave.map((_, info)), adjustTargetNumExecutors = false, triggeredByExecutor = false)
    }
  }

  /** Whether there are others than these to take blocks: else Spark gives up at once to move them. */
  private def companyOf(leave: Seq[String]): Boolean =
    sc.env.blockManager.master.getMemoryStatus.keys.map(_.executorId).exists { other =>
      !leave.contains(other) && isExecutorActive(other)
    }

  /** The job is over for the daemon: what runs in Spark has failed, and nothing more can. */
  private def end(why: String): Unit = if (!leaving) {
    leaving = true
    say(why)
    try scheduler.error(why)
    catch { case NonFatal(_) => } // which is how it says that nothing runs
    finally sc.stopInNewThread()
  }
}

private object StokerBackend {
  /** Settings that are nobody's business but the driver's and its executors'. */
  private val Private =
    Seq("spark.authenticate.secret", "spark.ssl.", "spark.stoker.token", "spark.stoker.ca", "spark.stoker.job")
  /** What is on an executor that is to go moves to others first, unless its user does not want that. */
  private val Draining = Map(
    "spark.decommission.enabled" -> "true",
    "spark.storage.decommission.enabled" -> "true",
    "spark.storage.decommission.rddBlocks.enabled" -> "true",
    "spark.storage.decommission.shuffleBlocks.enabled" -> "true",
    "spark.storage.decommission.replicationReattemptInterval" -> "5s")
  private val WaitsNanos = 5000000000L
  private val GoodbyeNanos = 15000000000L
  private val LongestError = 1000
  private val JobSecret = "spark.stoker.job.secret"
  /** How the jar is called where the daemon has it, and which jars executors fetch when they start. */
  private val OurJar = "/stoker-backend.jar"
  private val InitialJars = "spark.app.initial.jar.urls"

  private def applicationName(): String = {
    val time = java.time.format.DateTimeFormatter.ofPattern("yyyyMMddHHmmss").format(java.time.LocalDateTime.now())
    s"app-$time-${random(6)}"
  }

  /** So many random bytes as text of letters, digits, - and _. */
  private def random(bytes: Int): String = {
    val drawn = new Array[Byte](bytes)
    new SecureRandom().nextBytes(drawn)
    Base64.getUrlEncoder.withoutPadding.encodeToString(drawn)
  }

  private def items(answer: JsonNode, name: String): Seq[JsonNode] =
    Option(answer.get(name)).map(_.elements.asScala.toList).getOrElse(Nil)

  private def cause(error: Throwable): String = Option(error.getMessage).getOrElse(error.getClass.getSimpleName)

  /** For the user's terminal, whatever Spark logs there. */
  private def say(line: String): Unit = System.err.println(s"stoker: $line")
}

/** What Spark wants, until the daemon has been told. */
private class Wishes {
  private var wanted: Option[Map[ResourceProfile, Int]] = None
  private var back = Set.empty[String]
  private val bell = new LinkedBlockingQueue[Unit](1)

  def want(totals: Map[ResourceProfile, Int]): Unit = { synchronized { wanted = Some(totals) }; wake() }
  def release(ids: Seq[String]): Unit = { synchronized { back ++= ids }; wake() }
  def totals: Option[Map[ResourceProfile, Int]] = synchronized(wanted)
  def released: Set[String] = synchronized(back)
  def toldTotals(told: Map[ResourceProfile, Int]): Unit = synchronized { if (wanted.contains(told)) wanted = None }
  def toldReleased(told: Set[String]): Unit = synchronized { back --= told }
  def wake(): Unit = bell.offer(())
  def await(seconds: Double): Unit = bell.poll((seconds * 1000).toLong, TimeUnit.MILLISECONDS)
}
