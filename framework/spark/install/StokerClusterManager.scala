/*
 * How Spark comes to the master `spark+stoker://HOST:PORT`, and to a scheduler whose tasks wait for executors.
 *
 * What is asked of the daemon then is in `StokerBackend.scala`.
 */
package org.apache.spark.scheduler.cluster.stoker

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{ExternalClusterManager, SchedulerBackend, TaskDescription, TaskScheduler}
import org.apache.spark.scheduler.{TaskSchedulerImpl, WorkerOffer}

/** Found by Spark's service loader; answers masters whose URL begins with `spark+stoker`. */
class StokerClusterManager extends ExternalClusterManager {
  override def canCreate(master: String): Boolean = Master.unapply(master).isDefined

  override def createTaskScheduler(sc: SparkContext, master: String): TaskScheduler = new PatientScheduler(sc)

  override def createSchedulerBackend(sc: SparkContext, master: String, scheduler: TaskScheduler): SchedulerBackend = {
    val Master(urls) = master
    new StokerBackend(scheduler.asInstanceOf[TaskSchedulerImpl], sc, urls)
  }

  override def initialize(scheduler: TaskScheduler, backend: SchedulerBackend): Unit =
    scheduler.asInstanceOf[TaskSchedulerImpl].initialize(backend)
}

/**
 * Spark's scheduler, but for where it waits until most executors are there: not in SparkContext's constructor, but
 * with the first tasks, so that what an application does until then is done while executors start.
 */
private class PatientScheduler(sc: SparkContext) extends TaskSchedulerImpl(sc) {
  private var enough = false

  override def postStartHook(): Unit = ()

  override def resourceOffers(offers: IndexedSeq[WorkerOffer], all: Boolean): Seq[Seq[TaskDescription]] = synchronized {
    // The backend may make offers by a clock of its own before it is set here.
    enough = enough || (backend != null && backend.isReady())
    if (enough) super.resourceOffers(offers, all) else Seq.empty
  }
}

/**
 * A master's URL, which says where the API of daemons is that follow each other: `spark+stoker://` means http,
 * `spark+stokers://` https.
 */
private object Master {
  private val Url = "spark\\+stoker(s?)://([^/?#@,]+:\\d+(?:,[^/?#@,]+:\\d+)*)/?".r

  def unapply(master: String): Option[Seq[String]] = master match {
    case Url(encrypted, addresses) => Some(addresses.split(",").map(address => s"http$encrypted://$address").toList)
    case wrong if wrong.startsWith("spark+stoker") =>
      val right = "the master should be like spark+stoker://HOST:PORT, with commas between several"
      throw new StokerException(s"$right, found $wrong")
    case _ => None
  }
}
