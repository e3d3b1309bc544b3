/*
 * How a driver's JVM ends, as far as anybody in it can know.
 *
 * Spark stops its context in a hook of the JVM's end, where it has forgotten why that comes: a Python application
 * that crashed looks like one that is done. What is said of it is in `StokerBackend.scala`.
 */
package org.apache.spark.scheduler.cluster.stoker

import java.util.concurrent.atomic.AtomicBoolean
import java.util.logging.{Handler, Level, LogRecord, Logger}

import scala.collection.JavaConverters._

import org.apache.spark.deploy.SparkSubmit
import org.apache.spark.util.ShutdownHookManager

/** With which exit code (none: nobody said), by which signal, of which exception, each where that is known. */
private case class DriverEnd(exitCode: Option[Int], signal: Option[String] = None, error: Option[Throwable] = None)

private object DriverEnd {
  private val watching = new AtomicBoolean
  @volatile private var exitCode: Option[Int] = None
  @volatile private var error: Option[Throwable] = None
  private val OfSignals = "(SIG[A-Z0-9]+) handler".r
  /** Where Java says, from 21 on, with which code somebody ends it. */
  private val exits = Logger.getLogger("java.lang.Runtime")
  private val OfExit = "(?s).*status: (-?\\d+).*".r

  /** Note what spark-submit exits with (a Python application's exit code), and what the main class throws. */
  def watch(): Unit = if (watching.compareAndSet(false, true)) {
    SparkSubmit.exitFn = noting(SparkSubmit.exitFn)
    exits.setLevel(Level.FINE)
    exits.setUseParentHandlers(false)
    exits.addHandler(new Handler {
      override def publish(said: LogRecord): Unit = String.valueOf(said.getMessage) match {
        case OfExit(code) if exitCode.isEmpty => exitCode = Some(code.toInt)
        case _ =>
      }
      override def flush(): Unit = ()
      override def close(): Unit = ()
    })
    for (main <- Thread.getAllStackTraces.keySet.asScala.find(_.getId == 1)) {
      val earlier = main.getUncaughtExceptionHandler
      main.setUncaughtExceptionHandler((thread: Thread, thrown: Throwable) => {
        error = Some(thrown)
        earlier.uncaughtException(thread, thrown)
      })
    }
  }

  /** How this JVM ends; none when it goes on: the application stopped its context itself. */
  def known(): Option[DriverEnd] = if (!ShutdownHookManager.inShutdown()) None else {
    // Whoever has the JVM end waits in there for the hooks, this one among them.
    val leaving = Thread.getAllStackTraces.asScala.collect {
      case (thread, stack) if stack.exists(at => at.getClassName == "java.lang.Shutdown" && at.getMethodName == "exit") =>
        thread.getName
    }
    val signal = leaving.collectFirst { case OfSignals(name) => name }
    Some(
      if (signal.nonEmpty) DriverEnd(None, signal)
      else if (exitCode.nonEmpty) DriverEnd(exitCode)
      else if (error.nonEmpty) DriverEnd(Some(1), error = error)
      else if (leaving.nonEmpty) DriverEnd(None) // by System.exit: before Java 21 the number is on nobody's record
      else DriverEnd(Some(0)))
  }

  // How it exits is a function of the exit code in Spark 3.5, and in 4 of what was thrown, too.
  private def noting(exit: Int => Unit): Int => Unit = code => { exitCode = Some(code); exit(code) }

  private def noting(exit: (Int, Option[Throwable]) => Unit): (Int, Option[Throwable]) => Unit =
    (code, thrown) => { exitCode = Some(code); exit(code, thrown) }
}
