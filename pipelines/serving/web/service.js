// Requests to the service. If it needs an API key, the page has a field for it, and keeps it until it is closed.
import { byId } from "./elements.js";

let key = "";

/** The response to a request with the key. A response of status 401 shows the field for the key. */
export async function request(path, options = {}) {
  const headers = key ? {...options.headers, Authorization: `Bearer ${key}`} : options.headers;
  const response = await fetch(path, {...options, headers});
  if (response.status === 401) byId("access").hidden = false;
  return response;
}

/** Call a function when a key was typed. */
export function onKey(call) {
  byId("access").addEventListener("submit", (event) => {
    event.preventDefault();
    key = byId("key").value.trim();
    byId("access").hidden = true;
    call();
  });
}
