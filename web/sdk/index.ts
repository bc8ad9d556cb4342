// The module `afloat` that front plugins import.
export { useHub, type Hub, type HubEvent } from "../src/lib/hub";
