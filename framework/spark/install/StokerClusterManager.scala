/*
 * How Spark comes to the master `spark+stoker://HOST:PORT`, and to a scheduler whose tasks wait for executors.
 *
 * What is asked of the daemon then is in `StokerBackend.scala`.
 */
package org.apache.spark.scheduler.cluster.stoker

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{ExternalClusterManager, SchedulerBackend, TaskDescription, TaskScheduler}
import org.apache.spark.scheduler.{TaskSchedulerImpl, WorkerOffer}
import org.apache.spark.util.Utils

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
 * Spark's scheduler with two differences. It waits until most executors are there not in SparkContext's constructor,
 * but with the first tasks, so that what an application does until then is done while executors start. And where
 * executors that idle are given back, a few tasks go to as few executors as hold them, in the order of `Packing`:
 * Spark spreads them over all, so that none idles for long enough.
 */
private class PatientScheduler(sc: SparkContext) extends TaskSchedulerImpl(sc) {
  private var enough = false
  private val packs = Utils.isDynamicAllocationEnabled(sc.conf) && sc.conf.getBoolean("spark.stoker.packTasks", true)

  override def postStartHook(): Unit = ()

  override def resourceOffers(offers: IndexedSeq[WorkerOffer], all: Boolean): Seq[Seq[TaskDescription]] = synchronized {
    // The backend may make offers by a clock of its own before it is set here.
    enough = enough || (backend != null && backend.isReady())
    if (!enough) Seq.empty
    else packed(offers) match {
      // The rest gets what the first may not run, such as tasks whose data is elsewhere.
      case Some((first, rest)) => super.resourceOffers(first, false) ++ super.resourceOffers(rest, false)
      case None => super.resourceOffers(offers, all)
    }
  }

  /** Offers that hold all tasks that may start now, and the others; None where none are, or tasks start together. */
  private def packed(offers: IndexedSeq[WorkerOffer]): Option[(IndexedSeq[WorkerOffer], IndexedSeq[WorkerOffer])] = {
    lazy val sets = rootPool.getSortedTaskSetQueue.filterNot(_.isZombie)
    lazy val waiting = sets.map(set => math.max(set.numTasks - set.tasksSuccessful - set.runningTasks, 0)).sum
    if (!packs || offers.size < 2 || waiting == 0 || sets.exists(_.isBarrier)) None
    else {
      val running = runningTasksByExecutors
      val order = Packing.order(
        offers.map(_.executorId).toArray,
        offers.map(_.host).toArray,
        offers.map(offer => running.getOrElse(offer.executorId, 0)).toArray)
      val sorted = order.toIndexedSeq.map(offers)
      val held = sorted.scanLeft(0)((sum, offer) => sum + (offer.cores / CPUS_PER_TASK).toInt)
      Some(held.indexWhere(_ >= waiting)).filter(needed => 0 <= needed && needed < sorted.size).map(sorted.splitAt)
    }
  }
}

/** The order in which executors get tasks, so that those on a VM that could be empty soon get them last. */
private object Packing {
  /**
   * The places of the executors in that order: on hosts that run tasks first, then on those with most executors, and
   * there those that run most tasks, the oldest first. Arguments are each one's number, host, and running tasks.
   */
  def order(ids: Array[String], hosts: Array[String], running: Array[Int]): Array[Int] = {
    val executors = hosts.groupBy(identity).map { case (host, all) => host -> all.length }
    val busy = hosts.zip(running).filter(_._2 > 0).map(_._1).toSet
    ids.indices.sortBy { at =>
      val host = hosts(at)
      (!busy(host), -executors(host), host, -running(at), (ids(at).length, ids(at)))
    }.toArray
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
