/*
 * How the driver speaks HTTP with a Stoker daemon: the token or key, certificates, redirects to the leader, refusals.
 *
 * What is said is in `StokerBackend.scala`.
 */
package org.apache.spark.scheduler.cluster.stoker

import java.io.{FileInputStream, IOException}
import java.net.{ConnectException, HttpURLConnection, URL}
import java.security.KeyStore
import java.security.cert.CertificateFactory
import javax.net.ssl.{HttpsURLConnection, SSLContext, SSLSocketFactory, TrustManagerFactory}

import scala.collection.JavaConverters._
import scala.util.control.NoStackTrace

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.SparkException

/** What a user is told in one line; where in Spark it was noticed helps nobody. */
class StokerException(message: String) extends SparkException(s"stoker: $message") with NoStackTrace

/** Speaks to the daemons at `urls`, of which one leads: to the one that answered last, and else to the others. */
private class Daemon(urls: Seq[String], ca: Option[String]) {
  import Daemon._

  @volatile private var last = urls.head

  private val mapper = new ObjectMapper()
  private val sockets: Option[SSLSocketFactory] = ca.map(trusting)

  def node(): ObjectNode = mapper.createObjectNode()

  /** The one that answered last. */
  def url: String = last

  /**
   * What it answers; StokerException when it refuses, IOException when nobody answers in time. What must not be done
   * `once` more is not sent to another one when the first may have understood it.
   */
  def ask(method: String, path: String, secret: Option[String], body: ObjectNode, once: Boolean = false): JsonNode = {
    val bytes = mapper.writeValueAsBytes(body)
    def tried(left: Seq[String]): JsonNode =
      try {
        val answer = ask(method, new URL(left.head + path), secret, bytes, 3)
        last = left.head
        answer
      } catch {
        case error: IOException if left.tail.nonEmpty && (!once || error.isInstanceOf[ConnectException]) =>
          tried(left.tail)
      }
    tried(last +: urls.filterNot(_ == last))
  }

  private def ask(method: String, to: URL, secret: Option[String], body: Array[Byte], hops: Int): JsonNode = {
    val connection = to.openConnection().asInstanceOf[HttpURLConnection]
    (connection, sockets) match {
      case (encrypted: HttpsURLConnection, Some(factory)) => encrypted.setSSLSocketFactory(factory)
      case _ =>
    }
    connection.setRequestMethod(method)
    connection.setConnectTimeout(ConnectMillis)
    connection.setReadTimeout(AnswerMillis)
    connection.setInstanceFollowRedirects(false)
    connection.setUseCaches(false)
    connection.setRequestProperty("Content-Type", "application/json")
    connection.setRequestProperty("Accept", "application/json")
    secret.foreach(one => connection.setRequestProperty("Authorization", s"Bearer $one"))
    try {
      connection.setDoOutput(true)
      connection.setFixedLengthStreamingMode(body.length)
      val out = connection.getOutputStream
      try out.write(body) finally out.close()
      val status = connection.getResponseCode
      if (status == 307 && hops > 0) {
        val leader = new URL(to, connection.getHeaderField("Location"))
        if (to.getProtocol == "https" && leader.getProtocol != "https") {
          throw new StokerException(s"$url sends on to $leader, which is not https: not followed")
        }
        ask(method, leader, secret, body, hops - 1)
      } else if (status / 100 == 2) {
        val text = read(connection.getInputStream)
        try mapper.readTree(text) catch { case _: IOException => throw strange }
      } else {
        throw refusal(status, read(connection.getErrorStream))
      }
    } finally connection.disconnect()
  }

  /** What its problem details say; 5xx may be over soon, and so is as if nobody had answered. */
  private def refusal(status: Int, text: Array[Byte]): Exception = {
    val said = try Option(mapper.readTree(text)) catch { case _: IOException => None }
    val detail = said.flatMap(found => Option(found.get("detail"))).map(_.asText)
    (status, detail) match {
      case (401, Some(why)) =>
        new RefusedException(status, s"$why (spark.stoker.token.file or STOKER_TOKEN_FILE names the file with it)")
      case (429 | 502 | 503 | 504, Some(why)) => new IOException(why)
      case (_, Some(why)) => new RefusedException(status, why)
      case _ => new StokerException(s"$url answers with HTTP $status: is it a Stoker daemon?")
    }
  }

  private def strange = new StokerException(s"$url is no Stoker daemon: its answer is no JSON")
}

/** The daemon has understood and does not do it. */
private class RefusedException(val status: Int, message: String) extends StokerException(message)

private object Daemon {
  val ConnectMillis = 3000
  val AnswerMillis = 15000
  /** Bytes: the longest answer names some thousand executors. */
  private val Longest = 1 << 22

  private def read(stream: java.io.InputStream): Array[Byte] = {
    if (stream == null) return Array.emptyByteArray
    val all = new java.io.ByteArrayOutputStream
    val part = new Array[Byte](1 << 14)
    try {
      var count = stream.read(part)
      while (count >= 0 && all.size < Longest) {
        all.write(part, 0, count)
        count = stream.read(part)
      }
    } finally stream.close()
    all.toByteArray
  }

  /** Sockets that trust the certificates in a PEM file and no others. */
  private def trusting(path: String): SSLSocketFactory = try {
    val store = KeyStore.getInstance(KeyStore.getDefaultType)
    store.load(null, null)
    val file = new FileInputStream(path)
    try {
      for ((one, number) <- CertificateFactory.getInstance("X.509").generateCertificates(file).asScala.zipWithIndex) {
        store.setCertificateEntry(number.toString, one)
      }
    } finally file.close()
    val managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm)
    managers.init(store)
    val context = SSLContext.getInstance("TLS")
    context.init(null, managers.getTrustManagers, null)
    context.getSocketFactory
  } catch {
    case error: Exception => throw new StokerException(s"the certificates in $path cannot be read: ${error.getMessage}")
  }
}
