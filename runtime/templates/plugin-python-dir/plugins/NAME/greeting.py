def of(name, loud):
    text = f"Hello, {name}!"
    return text.upper() if loud else text
