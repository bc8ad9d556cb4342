/** The nonce of this page's policy: a `<style>` element that carries it is let through. */
export const styleNonce = (): string => document.querySelector<HTMLElement>("script[nonce]")?.nonce ?? "";
