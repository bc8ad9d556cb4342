/** Load front plugins and keep them fresh. Called once, when the event stream is open. */
export function startPlugins(): void {}
