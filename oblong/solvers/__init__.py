"""Pure numerical functions of arrays; nothing here knows of scikit-learn."""
