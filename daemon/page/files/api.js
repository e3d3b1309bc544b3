// What is asked of the daemon: JSON over the API, and the session. Nothing secret is kept here.

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Ask; the answer's JSON, null for an empty one. Refused for any other status. */
export async function ask(method, path, body) {
  const options = { method, headers: { Accept: "application/json" }, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Refused(0, "the daemon does not answer");
  }
  const text = await answer.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    throw new Refused(answer.status, "the answer is not from this daemon");
  }
  if (!answer.ok) throw new Refused(answer.status, value?.detail ?? `HTTP ${answer.status}`);
  return value;
}

export const get = (path) => ask("GET", path);

/** As `get`; null where there is no such thing, or where it is not for whoever asks. */
export async function may(path) {
  try {
    return await get(path);
  } catch (error) {
    if ([403, 404, 409].includes(error.status)) return null;
    throw error;
  }
}
